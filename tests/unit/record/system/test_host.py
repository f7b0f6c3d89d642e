"""The machine's counters: from written files, and beside psutil on this machine."""

import sys

import pytest

from stepscope.record.system.files import Rates, table
from stepscope.record.system.host import Cpu, Disk, Memory, Network

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_rates_of_counters():
    rates = Rates()
    assert dict(rates({"a": 10, "b": 5}, 1.0)) == {}
    assert dict(rates({"a": 30, "b": 5}, 3.0)) == {"a": 10.0, "b": 0.0}
    assert dict(rates({"a": 7, "b": 6, "c": 1}, 4.0)) == {"b": 1.0}  # a was reset, c is new
    assert dict(rates({"a": 9}, 6.0)) == {"a": 1.0}
    assert dict(rates({"a": 9}, 6.0)) == {}


def test_lines_that_are_none_of_a_table_are_passed_by(tree):
    path = tree({"stat": "a 1\nb\n\nc x\nd 4 kB\n"})
    assert table(f"{path}/stat") == {"a": 1, "d": 4}
    assert table(f"{path}/missing") == {}


def test_processors(tree):
    path = tree({"stat": "cpu  100 0 100 700 50 0 0 50 9 9\ncpu0 1 1 1 1 1 1 1 1\n"})
    cpu = Cpu(path)
    assert cpu.read(0) == {}
    tree({"stat": "cpu  130 10 110 720 60 5 5 60 9 9\n"})
    assert cpu.read(1) == pytest.approx(
        {
            "system/host/cpu_ratio": 0.7,
            "system/host/cpu_iowait_ratio": 0.1,
            "system/host/cpu_steal_ratio": 0.1,
        }
    )
    tree({"stat": ""})
    assert cpu.read(2) == {}
    tree({"stat": "cpu  1 1 1 1 1 1 1 1\n"})
    assert cpu.read(3) == {}


def test_memory(tree):
    path = tree({"meminfo": "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 250 kB\n"})
    assert Memory(path).read(0) == {
        "system/host/memory_used_bytes": 750 * 1024,
        "system/host/memory_used_ratio": 0.75,
    }
    tree({"meminfo": "SwapTotal: 100 kB\nSwapFree: 40 kB\n"})
    assert Memory(path).read(0) == {"system/host/swap_used_bytes": 60 * 1024}


DISKS = """ 8 0 sda {0} 0 {1} 0 {0} 0 {2} 0 0 {3} 0
 8 1 sda1 {0} 0 {1} 0 {0} 0 {2} 0 0 {3} 0
 7 0 loop0 {0} 0 {1} 0 {0} 0 {2} 0 0 {3} 0
 259 0 nvme0n1 0 0 0 0 0 0 0 0 0 0 0
"""


def test_disks_are_counted_once(tree):
    path = tree(
        {
            "proc/diskstats": DISKS.format(1, 1000, 2000, 100),
            "sys/block/sda/x": "",
            "sys/block/loop0/x": "",
            "sys/block/nvme0n1/x": "",
            "sys/block/dm-0/x": "",
        }
    )
    disk = Disk(path, f"{path}/proc", f"{path}/sys")
    assert set(disk.read(10.0)) == {"system/disk/free_bytes", "system/disk/used_ratio"}
    tree({"proc/diskstats": DISKS.format(2, 3000, 2500, 1600)})
    found = disk.read(12.0)
    assert found["system/disk/read_bytes_per_second"] == 1000 * 512
    assert found["system/disk/written_bytes_per_second"] == 250 * 512
    assert found["system/disk/busy_ratio"] == 0.75
    assert 0 < found["system/disk/used_ratio"] < 1


def test_a_directory_that_is_gone_has_no_room(tree):
    path = tree({})
    assert Disk(f"{path}/gone", path, path).read(0) == {}


NETS = """Inter-|   Receive |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets
    lo: {0} 1 0 0 0 0 0 0 {0} 1
  eth0: {0} 1 0 0 0 0 0 0 {1} 1
 veth1: {0} 1 0 0 0 0 0 0 {1} 1
"""


@pytest.mark.parametrize(("cards", "times"), [(["eth0"], 1), ([], 2)])
def test_cards_count_and_where_there_are_none_all_but_the_loopback(tree, cards, times):
    path = tree(
        {
            "proc/net/dev": NETS.format(0, 0),
            **{f"sys/class/net/{name}/device/x": "" for name in cards},
            "sys/class/net/veth1/x": "",
        }
    )
    network = Network(f"{path}/proc", f"{path}/sys")
    assert network.read(0.0) == {}
    tree({"proc/net/dev": NETS.format(1000, 500)})
    assert network.read(2.0) == {
        "system/network/received_bytes_per_second": 500 * times,
        "system/network/sent_bytes_per_second": 250 * times,
    }


def test_infiniband_counts_words_of_four_bytes(tree):
    counters = "sys/class/infiniband/mlx5_0/ports/1/counters"
    path = tree({"proc/net/dev": "", f"{counters}/port_rcv_data": 0, f"{counters}/port_xmit_data": 100})
    network = Network(f"{path}/proc", f"{path}/sys")
    network.read(0.0)
    tree({f"{counters}/port_rcv_data": 1000, f"{counters}/port_xmit_data": 600})
    assert network.read(1.0) == {
        "system/fabric/received_bytes_per_second": 4000,
        "system/fabric/sent_bytes_per_second": 2000,
    }


@linux
def test_this_machine_is_as_psutil_says(tmp_path):
    psutil = pytest.importorskip("psutil")
    memory, disk = psutil.virtual_memory(), psutil.disk_usage(str(tmp_path))
    found = Memory().read(0) | Disk(str(tmp_path)).read(0)
    used = memory.total - memory.available
    assert found["system/host/memory_used_bytes"] == pytest.approx(used, abs=0.1 * memory.total)
    assert found["system/disk/free_bytes"] == pytest.approx(disk.free, rel=0.1)
    assert found["system/disk/used_ratio"] == pytest.approx(disk.percent / 100, abs=0.02)
    cpu, network = Cpu(), Network()
    cpu.read(0)
    network.read(0)
    sum(range(3_000_000))
    assert all(0 <= value <= 1 for value in cpu.read(1).values())
    assert set(network.read(1)) >= {"system/network/received_bytes_per_second"}
