"""What real drivers print, on good days and on bad ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from questloop.fleet import nvidia_smi
from questloop.fleet.states import Health

# Two idle H100s, driver 580.159.04, recorded; identifiers replaced.
RECORDED = """\
0, GPU-00000000-0000-0000-0000-000000000000, NVIDIA H100 80GB HBM3, 81559, 0, 81079, 0, Disabled
1, GPU-00000001-0000-0000-0000-000000000001, NVIDIA H100 80GB HBM3, 81559, 0, 81079, 0, Disabled
"""
FIRST, SECOND = "GPU-00000000-0000-0000-0000-000000000000", "GPU-00000001-0000-0000-0000-000000000001"


def read(gpus, apps="", own=(), listing=None, exit_code=0, apps_exit_code=0):
    smi = {
        "gpus": {"exit_code": exit_code, "output": gpus},
        "apps": {"exit_code": apps_exit_code, "output": apps},
    }
    if listing is not None:
        smi["list"] = {"exit_code": 0, "output": listing}
    return nvidia_smi.read(smi, own)


def healths(driver):
    return [slot.health for slot in driver.slots]


def test_a_recorded_machine():
    driver = read(RECORDED)
    assert [slot.uuid for slot in driver.slots] == [FIRST, SECOND]
    assert {(slot.memory_mb, slot.memory_used_mb, slot.utilisation) for slot in driver.slots} == {
        (81559, 0, 0)
    }
    assert healths(driver) == [Health.HEALTHY] * 2
    assert driver.detail is None


@pytest.mark.parametrize(
    ("row", "health"),
    [
        ("0, GPU-a, NVIDIA GB10, [N/A], [N/A], [N/A], 0, [N/A]", Health.UNKNOWN),
        ("0, GPU-a, NVIDIA A100, [Not Supported], 0, 1, 0, Disabled", Health.UNKNOWN),
        ("0, GPU-a, NVIDIA A100, 40960, [N/A], [N/A], 0, Disabled", Health.UNKNOWN),
        ("0, GPU-a, NVIDIA A100, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost]",
         Health.UNHEALTHY),
        ("0, GPU-a, [Unknown Error], [Unknown Error], [Unknown Error], 1, 0, Disabled", Health.UNHEALTHY),
        ("0, GPU-a, NVIDIA A100, 40960, 0, 40000, ERR!, Disabled", Health.UNHEALTHY),
        ("0, GPU-a, NVIDIA A100, 40960, 0, 40000, [N/A], Disabled", Health.HEALTHY),
    ],
)  # fmt: skip
def test_a_gpu_that_does_not_tell_is_flagged_and_others_go_on(row, health):
    driver = read(f"{row}\n{RECORDED.splitlines()[1]}\n")
    assert healths(driver) == [health, Health.HEALTHY]
    assert (driver.detail is None) == (health is Health.HEALTHY)


@pytest.mark.parametrize(
    "line",
    [
        "Unable to determine the device handle for GPU0000:3B:00.0: GPU is lost.  Reboot the system",
        "Unable to determine the device handle for gpu 0000:0B:00.0: Unknown Error",
        "WARNING: infoROM is corrupted at gpu 0000:00:06.0",
    ],
)
def test_a_line_that_is_no_row_is_told_and_spoils_no_other(line):
    driver = read(f"{line}\n{RECORDED}", exit_code=15)
    assert healths(driver) == [Health.HEALTHY] * 2
    assert line[:30] in driver.detail


def test_no_devices_is_none_and_everything_else_is_unknown():
    assert read("No devices were found\n", exit_code=6).slots == ()
    failure = (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
        "Make sure that the latest NVIDIA driver is installed and running.\n"
    )
    driver = read(failure, exit_code=9)
    assert driver.slots is None
    assert "driver" in driver.detail
    assert read("", exit_code=9).slots is None
    assert nvidia_smi.read({"error": "hung", "detail": "did not return"}, ()).slots is None
    assert nvidia_smi.read({"error": "absent"}, ()).slots == ()


def test_a_foreign_process_is_told_from_our_own():
    apps = f"{FIRST}, 4711, 512, python\n{SECOND}, 4712, 70000, python\n"
    driver = read(RECORDED, apps, own=[4711])
    assert [slot.foreign_processes for slot in driver.slots] == [False, True]


def test_a_process_without_an_id_is_foreign():
    assert read(RECORDED, f"{FIRST}, [N/A], [N/A], [Not Found]\n").slots[0].foreign_processes


def test_where_processes_are_not_told_no_gpu_is_free():
    assert healths(read(RECORDED, "Failed to initialize NVML", apps_exit_code=255)) == [Health.UNKNOWN] * 2


LISTING = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-a)
  MIG 3g.20gb     Device  0: (UUID: MIG-c7384736-a75d-5afc-978f-d2f1294409fd)
  MIG 1g.5gb+me   Device  1: (UUID: MIG-28c7c1b8-c1c3-5f7e-9e3f-4b2bd5e5a0a4)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-b)
"""
MIG_ROWS = """\
0, GPU-a, NVIDIA A100-SXM4-40GB, 40960, 19, 40300, [N/A], Enabled
1, GPU-b, NVIDIA A100-SXM4-40GB, 40960, 0, 40300, 0, Disabled
"""


def test_slices_take_the_place_of_their_gpu():
    driver = read(MIG_ROWS, listing=LISTING)
    assert [slot.uuid[:7] for slot in driver.slots] == ["GPU-b", "MIG-c73", "MIG-28c"]
    assert [slot.memory_mb for slot in driver.slots[1:]] == [20 * 1024, 5 * 1024]
    assert driver.mig
    assert len({slot.index for slot in driver.slots}) == 3


def test_a_gpu_in_mig_mode_is_never_free_as_a_whole():
    assert [slot.uuid for slot in read(MIG_ROWS).slots] == ["GPU-b"]


def test_a_foreign_process_on_a_gpu_takes_all_its_slices():
    driver = read(MIG_ROWS, "GPU-a, 99, 100, x\n", listing=LISTING)
    assert [slot.foreign_processes for slot in driver.slots] == [False, True, True]


@given(st.text(), st.text(), st.text())
def test_no_output_crashes_or_makes_up_a_gpu(gpus, apps, listing):
    driver = read(gpus, apps, listing=listing, exit_code=1)
    assert not [slot for slot in driver.slots or () if slot.health is Health.HEALTHY and not slot.memory_mb]


@given(st.lists(st.sampled_from([*"0123456789,.[]%! ", "GPU-", "N/A", "MiB", "\n", "ERR", '"']), max_size=60))
def test_near_rows_do_not_crash(pieces):
    read("".join(pieces))
