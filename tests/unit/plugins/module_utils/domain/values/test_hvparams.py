from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, hvparams


def test_every_parameter_of_kvm_has_a_rule_and_every_rule_a_parameter() -> None:
    assert {field.name for field in dataclasses.fields(hvparams.Kvm)} == set(hvparams.KVM)


def test_texts_become_values() -> None:
    made = hvparams.kvm(
        {"migration_limit": "2.5", "migration_port": "49152", "migration_unsafe": "yes", "accel": "tcg", "other": "x"}
    )
    assert (made.migration_limit, made.migration_port, made.migration_unsafe, made.accel) == (2.5, 49152, True, "tcg")
    assert hvparams.kvm({}) == hvparams.Kvm()
    assert (hvparams.Kvm().shutdown_timeout, hvparams.Kvm().migration_transport) == (120, "ssh")


def test_a_flag_is_set_by_yes_and_by_true() -> None:
    words = ("yes", "true", "no", "false")
    assert [hvparams.kvm({"migration_unsafe": word}).migration_unsafe for word in words] == [True, True, False, False]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("migration_transport", "rdma"),
        ("migration_limit", "0"),
        ("migration_limit", "1e3"),
        ("migration_limit", "-1"),
        ("migration_limit", "nan"),
        ("migration_port", "65536"),
        ("migration_port", "1.5"),
        ("migration_downtime", "٣"),
        ("migration_bandwidth", ""),
        ("migration_unsafe", "maybe"),
        ("shutdown_timeout", "soon"),
        ("machine", "pc'/>"),
        ("boot", "cdrom"),
        ("accel", "xen"),
        ("vnc", "everywhere"),
        ("serial_log", "log"),
        ("serial_log", "/\ud800"),
        ("domain_xml", "<!-- \ud800 -->"),
    ],
)
def test_what_kvm_does_not_take_is_refused_by_name(name: str, value: str) -> None:
    for refuse in (hvparams.kvm, lambda given: hvparams.check("kvm", given)):
        with pytest.raises(errors.InvalidInput, match=rf"^hvparams\.{name}: .* is no"):
            refuse({name: value})


def test_a_parameter_of_another_hypervisor_is_refused_when_it_is_set() -> None:
    hvparams.check("fake", {"migration_seconds": "1.5", "migratable": "no"})
    with pytest.raises(errors.InvalidInput, match="fake has no parameter 'migration_downtime': use one of migr"):
        hvparams.check("fake", {"migration_downtime": "3"})
