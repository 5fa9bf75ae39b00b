import itertools
import os
import signal
import subprocess
import sys
import threading

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from questloop.errors import UnavailableError, UsageError
from questloop.exit_codes import ExitCode
from questloop.storage import keys
from questloop.storage.commit import commit_stage
from questloop.storage.keys import Stage
from questloop.storage.lease import FencedStore, Lease, LeaseHeld, LeaseLost, Process, is_superseded
from questloop.storage.store import AlreadyExists, NotFound, Store, open_store

HERE = Process("host boot pid:[1]", 1, "100")
OTHER = Process("elsewhere boot pid:[1]", 2, "200")


class Time:
    """A clock that moves when somebody sleeps."""

    def __init__(self):
        self.now = 1000.0
        self.on_sleep = lambda: None

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.on_sleep()


@pytest.fixture
def time():
    return Time()


def acquire(store, time, process=HERE, alive=True, run="r1"):
    return Lease.acquire(
        store,
        run,
        process=process,
        is_alive=lambda process: alive,
        clock=time,
        sleep=time.sleep,
        background=False,
    )


def test_fences_rise(empty_store, time):
    fences = []
    for _ in range(3):
        with acquire(empty_store, time) as lease:
            fences.append(lease.fence)
    assert fences == [1, 2, 3]
    assert time.now == 1000.0


def test_second_pipeline_on_this_host_is_refused_at_once(empty_store, time):
    with acquire(empty_store, time) as first:
        with pytest.raises(
            LeaseHeld, match=r"is being written by another pipeline \(run r1, process 1 on host\)"
        ):
            acquire(empty_store, time)
        assert time.now == 1000.0
        first.renew()


def test_killed_writer_on_this_host_is_followed_at_once(empty_store, time):
    acquire(empty_store, time)
    assert acquire(empty_store, time, alive=False).fence == 2
    assert time.now == 1000.0


def test_silent_writer_on_another_host_is_followed_after_its_lease(empty_store, time):
    acquire(empty_store, time, process=OTHER)
    assert acquire(empty_store, time).fence == 2
    assert time.now == pytest.approx(1030.0)


def test_live_writer_on_another_host_is_noticed(empty_store, time):
    first = acquire(empty_store, time, process=OTHER)
    time.on_sleep = first.renew
    with pytest.raises(LeaseHeld, match="on elsewhere"):
        acquire(empty_store, time)
    assert time.now < 1030.0


def test_writer_that_was_followed_loses(empty_store, time):
    late = acquire(empty_store, time)
    acquire(empty_store, time, alive=False)
    assert late.trusted  # cannot know yet
    with pytest.raises(LeaseLost, match="a newer writer took over"):
        late.renew()
    with pytest.raises(LeaseLost, match="run the command again to resume"):
        late.check()
    with pytest.raises(LeaseLost, match="taken over"):
        commit_stage(empty_store, 0, Stage.ROLLOUTS, late.fence, [])
    late.release()  # leaves the newer writer's documents alone
    with pytest.raises(LeaseHeld):
        acquire(empty_store, time)


def test_writer_that_cannot_renew_stops_before_another_may_start(empty_store, time):
    lease = acquire(empty_store, time)
    time.now += 20.0
    assert lease.trusted
    time.now += 2.0
    assert not lease.trusted


def test_writer_goes_on_after_an_outage_where_nobody_came(empty_store, time):
    lease = acquire(empty_store, time)
    time.now += 500.0
    lease.check()
    assert lease.trusted
    assert lease.fence == 1
    commit_stage(empty_store, 0, Stage.ROLLOUTS, lease.fence, [])
    time.now += 500.0
    lease.renew()
    commit_stage(empty_store, 0, Stage.EVALUATE, lease.fence, [])
    with pytest.raises(LeaseHeld):
        acquire(empty_store, time)
    lease.release()
    assert acquire(empty_store, time).fence == 4
    with pytest.raises(LeaseLost, match="taken over"):
        commit_stage(empty_store, 0, Stage.REWARD_MODEL, lease.fence, [])


def test_writer_stops_after_an_outage_where_somebody_came(empty_store, time):
    lease = acquire(empty_store, time, process=OTHER)
    time.now += 500.0
    newer = acquire(empty_store, time)
    with pytest.raises(LeaseLost, match="a newer writer took over"):
        lease.check()
    newer.check()
    assert newer.trusted


def test_lost_reply_to_a_continuation(time):
    store = Memory()
    lease = acquire(store, time)
    time.now += 500.0
    real = store._put

    def lost(key, data, **how):
        real(key, data, **how)
        raise UnavailableError("the reply was lost")

    store._put = lost
    with pytest.raises(UnavailableError):
        lease.check()
    store._put = real
    lease.check()
    assert lease.trusted
    commit_stage(store, 0, Stage.ROLLOUTS, lease.fence, [])


def test_a_store_belongs_to_one_run(empty_store, time):
    acquire(empty_store, time).release()
    with pytest.raises(UsageError, match="holds run r1, not r2"):
        acquire(empty_store, time, run="r2")


def test_lost_reply_to_the_lease_itself(tmp_path, time, monkeypatch):
    """The store made the object, the answer was lost, and the retry met it."""
    store = open_store(str(tmp_path))
    real = Store.put_if_absent

    def twice(self, key, data):
        real(self, key, data)
        return real(self, key, data)

    monkeypatch.setattr(Store, "put_if_absent", twice)
    lease = acquire(store, time)
    assert lease.fence == 1
    commit = commit_stage(store, 0, Stage.ROLLOUTS, 1, [], {"steps": 5})
    assert commit.info == {"steps": 5}


def test_one_of_two_newcomers_wins(empty_store):
    won, lost, barrier = [], [], threading.Barrier(4)

    def newcomer(number):
        barrier.wait()
        try:
            won.append(
                Lease.acquire(
                    empty_store, "r1", process=Process(f"h{number}", 1, "1"), lease_s=0.5, background=False
                )
            )
        except LeaseHeld as error:
            lost.append(str(error))

    threads = [threading.Thread(target=newcomer, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # A loser may have come late enough to watch the winner; it gave up only if that one was silent.
    assert len({lease.fence for lease in won}) == len(won)
    assert len(won) + len(lost) == 4
    alive = [lease for lease in won if not empty_store.exists(keys.lease(lease.fence + 1))]
    assert len(alive) == 1


def test_background_renewal(tmp_path):
    store = open_store(str(tmp_path))
    with Lease.acquire(store, "r1", lease_s=1.0) as lease:
        first = store.get(keys.lease_beat(lease.fence))
        beats = threading.Event()
        for _ in range(100):
            if store.get(keys.lease_beat(lease.fence)) != first:
                beats.set()
                break
            beats.wait(0.1)
        assert beats.is_set()
    assert b'"released":true' in store.get(keys.lease_beat(lease.fence))


_HOLDER = """
import sys, time
from questloop.storage.lease import Lease
from questloop.storage.store import open_store
lease = Lease.acquire(open_store(sys.argv[1]), "r1")
print(lease.fence, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are looked up in /proc")
def test_kill_9_then_the_same_command(tmp_path):
    command = [sys.executable, "-c", _HOLDER, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for fence in (b"1", b"2"):
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as holder:
            assert holder.stdout.readline().strip() == fence
            with pytest.raises(LeaseHeld) as refused:
                Lease.acquire(open_store(str(tmp_path)), "r1")
            assert refused.value.exit_code == ExitCode.UNAVAILABLE
            holder.send_signal(signal.SIGKILL)
    with Lease.acquire(open_store(str(tmp_path)), "r1") as lease:
        assert lease.fence == 3


class Memory(Store):
    """A named fake: a dictionary for the state machine, with the promises of a store and an outage switch."""

    url = "memory"

    def __init__(self):
        self.objects, self.down = {}, False

    def _put(self, key, data, *, create, durable):
        self._answer()
        if create and key in self.objects:
            raise AlreadyExists(key)
        self.objects[key] = data

    def get(self, key):
        self._answer()
        if key not in self.objects:
            raise NotFound(key)
        return self.objects[key]

    def size(self, key):
        return len(self.get(key))

    def list(self, prefix=""):
        from questloop.storage.store import Entry

        self._answer()
        return iter([Entry(key, len(data)) for key, data in self.objects.items() if key.startswith(prefix)])

    def folders(self, prefix=""):
        raise NotImplementedError

    def delete(self, keys):
        raise NotImplementedError

    def check(self):
        pass

    def check_space(self):
        pass

    def _answer(self):
        if self.down:
            raise UnavailableError("down")


class Writers(RuleBasedStateMachine):
    """Processes on two hosts come, renew, are cut off from the store, die and come again."""

    def __init__(self):
        super().__init__()
        self.store, self.time = Memory(), Time()
        self.leases, self.dead, self.started = {}, set(), 0
        self.time.on_sleep = self.renew_others
        self.cut_off = set()

    def renew_others(self):
        for process, lease in self.leases.items():
            if process not in self.dead and process not in self.cut_off:
                try:
                    lease.renew()
                except LeaseLost:
                    self.cut_off.add(process)

    @rule(host=st.sampled_from("ab"))
    def start(self, host):
        self.started += 1
        process = Process(host, self.started, str(self.started))
        trusted = {other for other in self.leases if self.trusts(other) and other not in self.dead}
        reachable = trusted - self.cut_off
        try:
            lease = Lease.acquire(
                self.store,
                "r1",
                process=process,
                is_alive=lambda other: other not in self.dead,
                clock=self.time,
                sleep=self.time.sleep,
                background=False,
            )
        except LeaseHeld:
            assert any(other not in self.dead for other in self.leases)
            return
        assert not reachable, "a writer that lives and can renew was followed"
        self.leases[process] = lease

    @rule(seconds=st.floats(0.1, 5))
    def pass_time(self, seconds):
        self.time.now += seconds
        self.renew_others()

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), fate=st.sampled_from(["die", "cut off", "release"]))
    def end(self, data, fate):
        process = data.draw(st.sampled_from(list(self.leases)))
        if fate == "die":
            self.dead.add(process)
        elif fate == "cut off":
            self.cut_off.add(process)
        elif process not in self.dead and process not in self.cut_off:
            self.leases[process].release()
            self.dead.add(process)

    def trusts(self, process):
        return self.leases[process].trusted

    @precondition(lambda self: self.cut_off - self.dead)
    @rule(data=st.data())
    def come_back(self, data):
        """The store can be reached again: the writer goes on, or learns that it was followed."""
        process = data.draw(st.sampled_from(sorted(self.cut_off - self.dead, key=lambda each: each.pid)))
        followed = max(self.leases, key=lambda each: each.pid) != process
        try:
            self.leases[process].check()
        except LeaseLost:
            assert followed
        else:
            assert not followed
            assert not is_superseded(self.store, self.leases[process].fence)
            self.cut_off.discard(process)

    @invariant()
    def one_live_process_trusts_its_lease(self):
        trusting = [process for process in self.leases if process not in self.dead and self.trusts(process)]
        assert len(trusting) <= 1

    @invariant()
    def fences_are_unique(self):
        fences = [lease.fence for lease in self.leases.values()]
        assert len(set(fences)) == len(fences)


Writers.TestCase.settings = hypothesis_settings(max_examples=60, stateful_step_count=30, deadline=None)
TestWriters = Writers.TestCase


def test_a_fenced_store_writes_only_while_the_lease_is_held(tmp_path):
    store = open_store(str(tmp_path))
    now = 0.0
    first = Lease.acquire(store, "r1", background=False, clock=lambda: now, lease_s=10)
    fenced = FencedStore(store, first)
    fenced.put("zelda-models/a", b"first")
    now = 11.0  # it slept; another host's writer waited for it
    other = Process("another host", 1, "1")
    ticks = itertools.count()
    second = Lease.acquire(
        store, "r1", background=False, process=other, clock=lambda: float(next(ticks)), sleep=lambda _: None
    )
    FencedStore(store, second).put("zelda-models/a", b"second")
    for write in (
        lambda: fenced.put("zelda-models/a", b"late"),
        lambda: fenced.put_if_absent("zelda-models/b", b"late"),
        lambda: fenced.delete(["zelda-models/a"]),
        fenced.remove_unfinished,
    ):
        with pytest.raises(LeaseLost):
            write()
    assert fenced.get("zelda-models/a") == b"second"
    assert not fenced.exists("zelda-models/b")


def test_a_store_that_was_emptied_is_nobodys(empty_store):
    """The beats of its writer would begin it anew."""
    lease = Lease.acquire(empty_store, "r1", background=False)
    empty_store.delete([entry.key for entry in empty_store.list()])
    with pytest.raises(LeaseLost, match="emptied or replaced"):
        lease.renew()
    assert not list(empty_store.list())


@pytest.mark.parametrize("damage", [lambda data: data[:40], lambda data: data.replace(b'"pid":', b'"pid":1')])
def test_a_damaged_lease_is_waited_for_and_followed(empty_store, damage):
    with Lease.acquire(empty_store, "r1", background=False, lease_s=1.0):
        pass
    key = keys.lease(1)
    empty_store.put(key, damage(empty_store.get(key)))
    empty_store.delete([keys.lease_beat(1)])
    waited = []
    clock = iter(range(0, 1000, 10))
    with Lease.acquire(
        empty_store, "r1", background=False, clock=lambda: float(next(clock)), sleep=waited.append
    ) as lease:
        assert lease.fence == 2
    assert waited
