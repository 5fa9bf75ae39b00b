"""What of a machine this process may use, by its control groups; below a folder in place of /."""

import pytest

from questloop.machine import machine_cores, machine_memory_mb

GIB = 1 << 30
MIB = 1 << 20


def machine(root, files):
    """`files` by path, and 64 GiB that are free by the kernel."""
    for name, text in {"proc/meminfo": f"MemAvailable: {64 << 20} kB\n", **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


def test_page_cache_is_not_in_use(tmp_path):
    files = {
        "sys/fs/cgroup/memory.max": 8 * GIB,
        "sys/fs/cgroup/memory.current": 8 * GIB - 100 * MIB,
        "sys/fs/cgroup/memory.stat": f"anon 1\nfile {7900 * MIB}\ninactive_file {7890 * MIB}\nactive_file 1",
    }
    assert machine_memory_mb(machine(tmp_path, files)) == pytest.approx(7890 + 100)


def test_version_1(tmp_path):
    files = {
        "proc/self/cgroup": "9:memory:/\n4:cpu,cpuacct:/\n1:name=systemd:/x",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": 1500 * MIB,
        "sys/fs/cgroup/memory/memory.usage_in_bytes": 600 * MIB,
        "sys/fs/cgroup/memory/memory.stat": f"inactive_file 0\ntotal_inactive_file {500 * MIB}",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": 100000,
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": 100000,
    }
    root = machine(tmp_path, files)
    assert machine_memory_mb(root) == 1400
    assert machine_cores(root) == 1


@pytest.mark.parametrize("unlimited", [{"memory.max": "max", "cpu.max": "max 100000"}, {}])
def test_no_limit(tmp_path, unlimited):
    root = machine(tmp_path, {f"sys/fs/cgroup/{name}": text for name, text in unlimited.items()})
    assert machine_memory_mb(root) == 64 * 1024
    assert machine_cores(root) == machine_cores(tmp_path / "nothing")


def test_no_limit_of_version_1(tmp_path):
    files = {
        "proc/self/cgroup": "9:memory:/\n4:cpu:/",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": 9223372036854771712,
        "sys/fs/cgroup/memory/memory.usage_in_bytes": 600 * MIB,
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": -1,
    }
    root = machine(tmp_path, files)
    assert machine_memory_mb(root) == 64 * 1024
    assert machine_cores(root) == machine_cores(tmp_path / "nothing")


def test_the_narrowest_group_around_it_counts(tmp_path):
    files = {
        "proc/self/cgroup": "0::/user.slice/job/step",
        "sys/fs/cgroup/user.slice/memory.max": 2 * GIB,
        "sys/fs/cgroup/user.slice/memory.current": GIB,
        "sys/fs/cgroup/user.slice/job/step/memory.max": 8 * GIB,
        "sys/fs/cgroup/user.slice/job/cpu.max": "100000 100000",
    }
    root = machine(tmp_path, files)
    assert machine_memory_mb(root) == 1024
    assert machine_cores(root) == 1


def test_a_group_that_is_not_mounted_here(tmp_path):
    """Docker without namespaces of control groups shows the host's path and mounts the container's own."""
    files = {"proc/self/cgroup": "9:memory:/docker/abc", "sys/fs/cgroup/memory/memory.limit_in_bytes": GIB}
    assert machine_memory_mb(machine(tmp_path, files)) == 1024
    (tmp_path / "proc/self/cgroup").write_text("0::/../../elsewhere\n")
    (tmp_path / "sys/fs/cgroup/memory.max").write_text(f"{GIB // 2}\n")
    assert machine_memory_mb(tmp_path) == 512
