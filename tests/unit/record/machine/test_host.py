"""The machine's counters, from files that psutil reads in place of the kernel's, and from this machine."""

import sys

import psutil
import pytest

from stepscope.record.machine import CounterRates, Cpu, Disk, HostMemory, Network, file_table

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_rates_of_counters():
    rates = CounterRates()
    assert dict(rates({"a": 10, "b": 5}, 1.0)) == {}
    assert dict(rates({"a": 30, "b": 5}, 3.0)) == {"a": 10.0, "b": 0.0}
    assert dict(rates({"a": 7, "b": 6, "c": 1}, 4.0)) == {"b": 1.0}  # a was reset, c is new
    assert dict(rates({"a": 9}, 6.0)) == {"a": 1.0}
    assert dict(rates({"a": 9}, 6.0)) == {}


def test_lines_that_are_none_of_a_table_are_passed_by(tree):
    path = tree({"stat": "a 1\nb\n\nc x\nd 4 kB\n"})
    assert file_table(f"{path}/stat") == {"a": 1, "d": 4}
    assert file_table(f"{path}/missing") == {}


def test_processors(proc):
    proc({"stat": "cpu  100 0 100 700 50 0 0 50 9 9\ncpu0 1 1 1 1 1 1 1 1\n"})
    cpu = Cpu()
    assert cpu.read(0) == {}
    proc({"stat": "cpu  130 10 110 720 60 5 5 60 9 9\n"})
    assert cpu.read(1) == pytest.approx(
        {
            "system/host/cpu_ratio": 0.7,
            "system/host/cpu_iowait_ratio": 0.1,
            "system/host/cpu_steal_ratio": 0.1,
        }
    )
    proc({"stat": "cpu  1 1 1 1 1 1 1 1 0 0\n"})
    assert cpu.read(3) == {}, "the counters began again"


def test_memory(proc):
    zero = "".join(f"{name}: 0 kB\n" for name in ("Buffers", "Cached", "Shmem", "Active", "Inactive"))
    sizes = f"MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 250 kB\n{zero}"
    proc({"meminfo": f"{sizes}SwapTotal: 0 kB\nSwapFree: 0 kB\n", "vmstat": "pswpin 0\npswpout 0\n"})
    assert HostMemory().read(0) == {
        "system/host/memory_used_bytes": 750 * 1024,
        "system/host/memory_used_ratio": 0.75,
    }
    proc({"meminfo": f"{sizes}SwapTotal: 100 kB\nSwapFree: 40 kB\n"})
    assert HostMemory().read(0)["system/host/swap_used_bytes"] == 60 * 1024


DISKS = """ 8 0 sda {0} 0 {1} 0 {0} 0 {2} 0 0 {3} 0
 8 1 sda1 {0} 0 {1} 0 {0} 0 {2} 0 0 {3} 0
 7 0 loop0 {0} 0 {1} 0 {0} 0 {2} 0 0 {3} 0
 259 0 nvme0n1 0 0 0 0 0 0 0 0 0 0 0
"""


def test_disks_are_counted_once(proc):
    path = proc(
        {
            "diskstats": DISKS.format(1, 1000, 2000, 100),
            "sys/block/sda/x": "",
            "sys/block/loop0/x": "",
            "sys/block/nvme0n1/x": "",
            "sys/block/dm-0/x": "",
        }
    )
    disk = Disk(path, f"{path}/sys")
    assert set(disk.read(10.0)) == {"system/disk/free_bytes", "system/disk/used_ratio"}
    proc({"diskstats": DISKS.format(2, 3000, 2500, 1600)})
    found = disk.read(12.0)
    assert found["system/disk/read_bytes_per_second"] == 1000 * 512
    assert found["system/disk/written_bytes_per_second"] == 250 * 512
    assert found["system/disk/busy_ratio"] == 0.75
    assert 0 < found["system/disk/used_ratio"] < 1


def test_a_directory_that_is_gone_has_no_room(proc):
    """And a system without counters of disks says nothing of them."""
    path = proc({})
    assert Disk(f"{path}/gone", path).read(0) == {}


NETS = """Inter-|   Receive |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets
    lo: {0} 1 0 0 0 0 0 0 {0} 1 0 0 0 0 0 0
  eth0: {0} 1 0 0 0 0 0 0 {1} 1 0 0 0 0 0 0
 veth1: {0} 1 0 0 0 0 0 0 {1} 1 0 0 0 0 0 0
"""


@pytest.mark.parametrize(("cards", "times"), [(["eth0"], 1), ([], 2)])
def test_cards_count_and_where_there_are_none_all_but_the_loopback(proc, cards, times):
    path = proc(
        {
            "net/dev": NETS.format(0, 0),
            **{f"sys/class/net/{name}/device/x": "" for name in cards},
            "sys/class/net/veth1/x": "",
        }
    )
    network = Network(f"{path}/sys")
    assert network.read(0.0) == {}
    proc({"net/dev": NETS.format(1000, 500)})
    assert network.read(2.0) == {
        "system/network/received_bytes_per_second": 500 * times,
        "system/network/sent_bytes_per_second": 250 * times,
    }


def test_infiniband_counts_words_of_four_bytes(proc):
    counters = "sys/class/infiniband/mlx5_0/ports/1/counters"
    path = proc({"net/dev": "", f"{counters}/port_rcv_data": 0, f"{counters}/port_xmit_data": 100})
    network = Network(f"{path}/sys")
    network.read(0.0)
    proc({f"{counters}/port_rcv_data": 1000, f"{counters}/port_xmit_data": 600})
    assert network.read(1.0) == {
        "system/fabric/received_bytes_per_second": 4000,
        "system/fabric/sent_bytes_per_second": 2000,
    }


def test_this_machine_is_read(tmp_path):
    found = HostMemory().read(0) | Disk(str(tmp_path)).read(0)
    assert found["system/disk/free_bytes"] == pytest.approx(psutil.disk_usage(str(tmp_path)).free, rel=0.1)
    cpu, network = Cpu(), Network()
    cpu.read(0)
    network.read(0)
    sum(range(3_000_000))
    assert all(0 <= value <= 1 for value in cpu.read(1).values())
    assert set(network.read(1)) >= {"system/network/received_bytes_per_second"}
