from __future__ import annotations

from dataclasses import replace

import hypothesis
import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model, text_format

from tests import generated_clusters

from ...rounds import kinds

GROUPS = "g1|uuid-1|preferred|rack,old|net-1\n"
NODES = "node1|4096|512|2048|8000|4000|8|M|uuid-1\nnode2|4096|512|3584|8000|6000.0|8|N|uuid-1|4|a,b|Y|2|1|1.5\n"
INSTANCES = "web|1536|2000|2|running|Y|node1|node2|drbd|\n"
TEXT = f"{GROUPS}\n{NODES.replace('6000.0', '6000')}\n{INSTANCES}\nhtools:iextags:service\n\n"
SPECS = "128,1,1024,1,1,1|128,1,1024,1,1,1;4096,8,9999,16,8,12"


def without(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


def test_a_line_without_its_last_fields_has_their_defaults() -> None:
    first, second = text_format.read(TEXT).nodes
    assert (first.spindles, first.tags, first.exclusive_storage, first.os_vcpus, first.cpu_speed) == (
        1,
        (),
        False,
        1,
        1,
    )
    assert (second.spindles, second.tags, second.exclusive_storage, second.free_spindles) == (4, ("a", "b"), True, 2)
    assert first.master
    assert text_format.read(TEXT).instances[0].spindles is None


def test_a_group_without_a_policy_has_the_built_in_one_and_policies_go_by_the_name_of_the_group() -> None:
    assert text_format.read(TEXT).groups[0].policy == model.Policy()
    found = text_format.read(f"{TEXT}|{SPECS}|drbd,rbd|3.5|8\ng1|{SPECS}|plain|2.0|16.0\n")
    assert found.policy.templates == (model.Template.DRBD, model.Template.RBD)
    assert (found.policy.vcpu_ratio, found.groups[0].policy.vcpu_ratio) == (3.5, 2.0)
    assert found.groups[0].policy.bounds[0][1] == model.Spec(4096, 8, 9999, 16, 8, 12)


def test_empty_sections_are_empty_lines() -> None:
    found = text_format.read(f"{GROUPS}\n{NODES.replace('6000.0', '6000')}\n\ntag-1\ntag-2\n")
    assert found.instances == ()
    assert found.tags == ("tag-1", "tag-2")
    assert text_format.read(text_format.write(found)) == found


def test_a_node_whose_numbers_are_unknown_is_empty_and_offline() -> None:
    found = text_format.read(without(TEXT, "node2|4096|512|3584", "node2|?|?|?"))
    node = found.nodes[1]
    assert (node.is_known, node.offline, node.t_mem, node.t_disk, node.tags) == (False, True, 0.0, 0.0, ())
    assert text_format.read(text_format.write(found)) == found


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(kinds.clusters())
def test_what_is_written_is_read_as_the_same_cluster(cluster: model.Model) -> None:
    plain = replace(cluster, instances=tuple(replace(one, load=model.Load()) for one in cluster.instances))
    assert text_format.read(text_format.write(plain)) == plain


def test_numbers_keep_their_fractions() -> None:
    made = generated_clusters.make(nodes=2, instances=0)
    nodes = tuple(replace(one, t_mem=4096.25, cpu_speed=1.3, pcpus=0.5) for one in made.nodes)
    made = replace(made, nodes=nodes, policy=replace(made.policy, vcpu_ratio=4.7))
    assert text_format.read(text_format.write(made)) == made


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("|2048|", "|12x|", "line 3, field f_mem: '12x' is not a whole number"),
        ("|2048|", "|20.5|", "line 3, field f_mem: '20.5' is not a whole number"),
        ("|2048|", "||", "line 3, field f_mem: '' is not a whole number"),
        ("|2048|", "|99999999999999999999|", "line 3, field f_mem: 99999999999999999999 is too large"),
        ("node1|4096", "node1|nan", "line 3, field t_mem: 'nan' is not a number"),
        ("node1|4096", "node1|inf", "line 3, field t_mem: 'inf' is not a number"),
        ("node1|4096", "node1|1e999", "line 3, field t_mem: '1e999' is not a number"),
        ("node1|4096", "node1|-1", "line 3, field t_mem: -1 is less than 0"),
        ("node1|4096", "node1|0", "line 3, field t_mem: 0 is not more than 0"),
        ("|8|M|", "|0|M|", "line 3, field pcpus: 0 is not more than 0"),
        ("|1.5", "|0", "line 4, field cpu_speed: 0 is not more than 0"),
        ("|512|2048", "|-512|2048", "line 3, field n_mem: -512 is less than 0"),
        ("|M|uuid-1", "|X|uuid-1", "line 3, field flag: 'X' is not one of Y (offline), M (master), N"),
        ("|M|uuid-1", "|M|uuid-2", "line 3, field group: there is no group with the UUID 'uuid-2'"),
        ("a,b|Y", "a,b|y", "line 4, field exclusive_storage: 'y' is neither Y nor N"),
        ("node2|4096", "node1|4096", "line 4, field name: 'node1' stands already in line 3"),
        ("preferred", "perhaps", "line 1, field alloc_policy: 'perhaps' is not one of preferred, last_resort"),
        ("|node1|node2", "|node9|node2", "line 6, field primary: there is no node 'node9'"),
        ("|node1|node2", "|node1|node9", "line 6, field secondary: there is no node 'node9'"),
        ("|node1|node2", "|node1|node1", "line 6, field secondary: node1 is the primary too"),
        ("|running|", "|walking|", "line 6, field status: 'walking' is not one of running, ADMIN_down"),
        ("|drbd|", "|tape|", "line 6, field template: 'tape' is not one of diskless, file"),
        ("web|1536", "web|-1", "line 6, field memory: -1 is less than 0"),
        ("web|", "|", "line 6, field name: a name was expected, and it is empty"),
        ("|node1|node2|drbd|", "|node1", "line 6: 7 fields instead of at least 10: name|memory|disk"),
        ("g1|uuid-1|preferred|rack,old|net-1", "g1|uuid-1", "line 1: 2 fields instead of at least 4: name|uuid"),
    ],
)  # fmt: skip
def test_an_error_names_line_and_field_and_what_was_expected(old: str, new: str, said: str) -> None:
    with pytest.raises(errors.InvalidInput) as raised:
        text_format.read(without(TEXT, old, new))
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"g2|{SPECS}|drbd|4|32", "line 10, field owner: there is no group 'g2'"),
        (f"|{SPECS}|tape|4|32", "line 10, field templates: 'tape' is not one of"),
        (f"|{SPECS};1,1,1,1,1,1|drbd|4|32", "line 10, field bounds: 3 specs, and pairs of min;max were expected"),
        ("|1,2,3|1,1,1,1,1,1;1,1,1,1,1,1|drbd|4|32", "line 10, field std: '1,2,3' has not the 6 numbers memory,vcpus"),
        ("|1,2,3,4,5,x|1,1,1,1,1,1;1,1,1,1,1,1|drbd|4|32", "line 10, field std: 'x' is not a whole number"),
        (f"|{SPECS}|drbd|-4|32", "line 10, field vcpu_ratio: -4 is less than 0"),
        (f"|{SPECS}|drbd|4|32\n|{SPECS}|drbd|4|32", "line 11, field owner: a policy of '' stands already above"),
    ],
)
def test_an_error_in_a_policy_names_what_is_wrong(line: str, said: str) -> None:
    with pytest.raises(errors.InvalidInput) as raised:
        text_format.read(f"{TEXT}{line}\n")
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize("text", ["", "x", f"{GROUPS}\n{NODES}"])
def test_a_text_without_its_sections_is_refused(text: str) -> None:
    with pytest.raises(errors.InvalidInput, match="sections, and 4 or more were expected"):
        text_format.read(text)


def test_an_offline_node_may_have_nothing() -> None:
    found = text_format.read(without(TEXT, "node1|4096|512|2048|8000|4000|8|M", "node1|0|0|0|0|0|0|Y"))
    assert found.nodes[0].offline


@pytest.mark.parametrize("tag", ["a|b", "a\nb", "a,b", ""])
def test_a_tag_that_the_format_cannot_hold_is_refused(tag: str) -> None:
    made = generated_clusters.make(nodes=2, instances=0)
    nodes = (replace(made.nodes[0], tags=(tag,)), *made.nodes[1:])
    with pytest.raises(errors.InvalidInput, match="cannot be written"):
        text_format.write(replace(made, nodes=nodes))


@pytest.mark.parametrize("tag", ["", "a\nb"])
def test_a_cluster_tag_is_a_line(tag: str) -> None:
    made = generated_clusters.make(nodes=2, instances=0)
    with pytest.raises(errors.InvalidInput, match="a cluster tag is a line that is not empty"):
        text_format.write(replace(made, tags=(tag,)))
