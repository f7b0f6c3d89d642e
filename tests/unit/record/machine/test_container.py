"""Control groups, from written files."""

import pytest

from stepscope.record.machine import Container, ControlGroup, groups, quota

MODERN = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
OLD = (
    "32 31 0:29 {root} /cg/cpu rw - cgroup cgroup rw,cpu\n"
    "33 31 0:30 {root} /cg/cpuacct rw - cgroup cgroup rw,cpuacct\n"
    "35 31 0:32 {root} /cg/memory rw - cgroup cgroup rw,memory\n"
)


def container(path):
    return Container(f"{path}/proc", path)


def test_the_tightest_of_nested_limits_counts(tree):
    path = tree(
        {
            "proc/self/cgroup": "0::/pod/box\n",
            "proc/self/mountinfo": MODERN,
            "sys/fs/cgroup/pod/box/memory.max": "max",
            "sys/fs/cgroup/pod/memory.max": 1000,
            "sys/fs/cgroup/pod/memory.current": 900,
            "sys/fs/cgroup/pod/memory.stat": "anon 1\ninactive_file 400\n",
            "sys/fs/cgroup/pod/memory.events": "low 0\noom_kill 2\n",
            "sys/fs/cgroup/pod/box/cpu.max": "150000 100000",
            "sys/fs/cgroup/pod/box/cpu.stat": "usage_usec 0\nnr_periods 10\nnr_throttled 0\n",
            "sys/fs/cgroup/pod/cpu.max": "max 100000",
        }
    )
    found = container(path)
    assert found.cpus == 1.5
    assert found.read(0.0) == {
        "system/container/memory_bytes": 500,
        "system/container/memory_ratio": 0.5,
        "system/container/oom_kill_count": 2,
    }
    tree({"sys/fs/cgroup/pod/box/cpu.stat": "usage_usec 3000000\nnr_periods 30\nnr_throttled 5\n"})
    later = found.read(4.0)
    assert later["system/container/cpu_ratio"] == 0.5
    assert later["system/container/cpu_throttled_ratio"] == 0.25


@pytest.mark.parametrize(
    ("words", "cpus"), [("50000", 0.5), ("50000 200000", 0.25), ("max 100000", None), ("", None)]
)
def test_a_quota_is_a_part_of_its_period_which_is_usually_a_tenth_of_a_second(tree, words, cpus):
    assert quota(ControlGroup(str(tree({"cpu.max": words})), True)) == cpus


def test_version_one(tree):
    path = tree(
        {
            "proc/self/cgroup": "4:memory:/a\n2:cpuacct:/a\n1:cpu:/a\n",
            "proc/self/mountinfo": OLD.format(root="/"),
            "cg/memory/memory.limit_in_bytes": 9223372036854771712,
            "cg/memory/a/memory.limit_in_bytes": 2000,
            "cg/memory/a/memory.usage_in_bytes": 600,
            "cg/memory/a/memory.stat": "total_inactive_file 100\n",
            "cg/cpu/a/cpu.cfs_quota_us": 200000,
            "cg/cpu/a/cpu.cfs_period_us": 100000,
            "cg/cpu/a/cpu.stat": "nr_periods 1\nnr_throttled 1\n",
            "cg/cpuacct/a/cpuacct.usage": 10**9,
            "cg/cpu/cpu.cfs_quota_us": -1,
            "cg/cpu/cpu.cfs_period_us": 100000,
        }
    )
    found = container(path)
    assert found.cpus == 2.0
    assert found.read(0.0) == {
        "system/container/memory_bytes": 500,
        "system/container/memory_ratio": 0.25,
    }
    tree({"cg/cpuacct/a/cpuacct.usage": 5 * 10**9})
    assert found.read(4.0)["system/container/cpu_ratio"] == 0.5


@pytest.mark.parametrize(
    ("own", "root", "expected"),
    [
        ("/docker/1", "/docker/1", "/cg/memory"),  # the mount shows the group itself
        ("/docker/1/child", "/docker/1", "/cg/memory/child"),
        ("/host/path", "/", "/cg/memory"),  # a path that is not seen from in here
        ("/x", "/docker/1", "/cg/memory"),
    ],
)
def test_what_a_mount_shows_of_the_hierarchy(tree, own, root, expected):
    path = tree(
        {
            "proc/self/cgroup": f"4:memory:{own}\n",
            "proc/self/mountinfo": OLD.format(root=root),
            "cg/memory/child/x": "",
        }
    )
    assert groups("memory", f"{path}/proc", path)[0].path == f"{path}{expected}"


@pytest.mark.parametrize("content", [{}, {"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": MODERN}])
def test_without_limits_nothing_is_said(tree, content):
    found = container(tree(content))
    assert found.cpus is None
    assert found.read(0.0) == found.read(1.0) == {}


def test_this_machine_is_read_without_a_mishap():
    found = Container()
    found.read(0.0)
    assert all(value >= 0 for value in found.read(1.0).values())
