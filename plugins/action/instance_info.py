"""The action of every module that needs nothing of the controller; meta/runtime.yml names them."""

from __future__ import annotations

from ..plugin_utils import module_answers

ActionModule = module_answers.ModuleAction
