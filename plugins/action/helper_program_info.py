"""The action of the module `helper_program_info`: only the documented keys of its answer are taken."""

from __future__ import annotations

from ..plugin_utils import module_answers

ActionModule = module_answers.ModuleAction
