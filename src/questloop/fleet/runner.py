#!/usr/bin/env python3
"""The fleet's part on a machine: one file, standard library only, Python 3.8 or newer, Linux.

`python3 runner.py COMMAND` reads a JSON object from standard input and prints one on a line of its own, with
the `question` number that it was asked with, since login shells print too. Everything that it keeps is in the
folder that this file lies in (`~/.questloop`):

    jobs/{job_id}/{attempt}/    spec.json, pid, heartbeat, lease, exit.json, processes, log, work/, output/
    staging/{job_id}/{attempt}/ uploaded inputs; become work/ at the launch
    locks/{slot}                locked by the runner and its job while they use the slot; holds its floor
    runners/{pid}               a living runner, which holds a lock on it
    journal.jsonl               begin and end of every attempt, with its slots

    hello     clock and boot id
    launch    start an attempt, once: the folder is made under the job's lock. Refused: another boot, a passed
              deadline, a fence below the slot's floor or below a newer attempt of the job, a slot in use, an
              earlier attempt that still lives
    watch     how attempts stand; takes new deadlines; ends what a dead runner left behind
    kill      end an attempt with its whole process group; one never launched can then no longer be
    poll      boot id, nvidia-smi's answers (never two at once), processes that belong to attempts
    outputs   what lies in the attempt's output folder
    prune     remove folders of attempts that ended long ago
    serve     watch and poll, which come again and again: `[COMMAND, REQUEST]` per line, an answer per line,
              until the input ends or is silent for long

A command is a process of its own, so modules that few of them use are imported there.
"""

import contextlib
import errno
import fcntl
import json
import os
import signal
import sys
import time

BASE = os.path.dirname(os.path.abspath(__file__))
BOOT_ID_FILE = os.environ.get("QUESTLOOP_BOOT_ID_FILE", "/proc/sys/kernel/random/boot_id")
MARK = "QUESTLOOP_ATTEMPT"
SILENCE_S = 600
PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36


def main():
    """Answer the one command of the command line, or serve."""
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    if command not in COMMANDS and command != "serve":
        sys.exit(f"usage: runner.py {'|'.join(COMMANDS)}|serve < request.json")
    os.umask(0o077)
    if command == "serve":
        return serve()
    request = json.load(sys.stdin)
    say(request, COMMANDS[command](request))


def say(request, answer):
    """Print an answer on a line of its own, whatever a login shell has left on the line before."""
    if "question" in request:
        answer = dict(answer, question=request["question"])
    sys.stdout.write("\n" + json.dumps(answer) + "\n")
    sys.stdout.flush()


def hello(request):
    """Say which boot of this machine it is, its clock in seconds and its Python."""
    return {"boot_id": boot_id(), "clock": clock(), "python": sys.version.split()[0]}


def launch(request):
    """Start an attempt unless it was started or stopped before; the request may come any number of times."""
    with job_lock(request["job_id"]):
        folder = attempt_folder(request["job_id"], request["attempt"])
        if os.path.isdir(folder) or was_begun(request["job_id"], request["attempt"]):
            return state_of(folder, None)
        if request["boot_id"] != boot_id():
            return refused("machine_rebooted", "the launch was meant for another boot of this machine")
        if clock() >= request["deadline"]:
            return refused("lease_expired", "the launch came after its deadline")
        newer = [name for name in os.listdir(os.path.dirname(folder)) if name.isdigit()]
        if any(int(name) > request["attempt"] for name in newer):
            return refused("stale_fence", "a newer attempt of this job was here")
        earlier = [name for name in newer if is_locked(attempt_folder(request["job_id"], name))]
        if earlier:
            return refused("slot_in_use", "attempt " + earlier[0] + " of this job still lives here")
        try:
            locks = lock_slots(request["slots"], request["attempt"], request["shared"])
        except Refused as refusal:
            return refused(*refusal.args)
        return start(folder, request, locks)


def watch(request):
    """Say how attempts stand, and take their new deadlines."""
    states = {}
    for item in request["attempts"]:
        folder = attempt_folder(item["job_id"], item["attempt"])
        with job_lock(item["job_id"]):
            states[str(item["attempt"])] = state_of(folder, item.get("deadline"))
    return {"boot_id": boot_id(), "clock": clock(), "attempts": states}


def kill(request):
    """End an attempt; one that was never launched is marked, so that a late launch starts nothing."""
    with job_lock(request["job_id"]):
        folder = attempt_folder(request["job_id"], request["attempt"])
        if not os.path.isdir(folder):
            state = state_of_removed(folder)
            if state["state"] != "absent":
                return state
            os.makedirs(folder)
            write(
                folder, "exit.json", json.dumps({"ending": "cancelled", "started": False, "exit_code": None})
            )
        elif not os.path.exists(os.path.join(folder, "exit.json")):
            write(folder, "stop", request.get("ending", "cancelled"))
            if request.get("force"):
                runner = read_int(folder, "pid")
                if runner and is_locked(folder):
                    send(runner, signal.SIGKILL)
                    wait_until(lambda: not is_locked(folder), 5)
            elif is_locked(folder):
                send(read_int(folder, "pid"), signal.SIGCONT)
                send(read_int(folder, "pid"), signal.SIGUSR1)
        return state_of(folder, None)


def serve():
    """Answer every line. The alarm ends us where the other side has gone without a word."""
    looks = {"watch": watch, "poll": poll}
    signal.alarm(SILENCE_S)
    for line in sys.stdin:
        command, request = json.loads(line)
        say(request, looks[command](request))
        signal.alarm(SILENCE_S)


def poll(request):
    """What nvidia-smi says. One that hangs keeps its lock, and no second one is started."""
    own = own_processes() | descendants(living_runners())
    os.makedirs(os.path.join(BASE, "locks"), exist_ok=True)
    lock = os.open(os.path.join(BASE, "locks", "nvidia-smi"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        smi = ask_smi(request, lock)
    finally:
        os.close(lock)
    # Before and after: a job that began or ended in between is ours all the same.
    own |= own_processes() | descendants(living_runners())
    locked = locked_slots()
    return {"boot_id": boot_id(), "clock": clock(), "smi": smi, "own_pids": sorted(own), "locked": locked}


def locked_slots():
    """Names of the slots that something holds, from the kernel's list: to try a lock would be to take it."""
    folder = os.path.join(BASE, "locks")
    try:
        with open("/proc/locks") as file:
            rows = [line.split() for line in file]
        inodes = {row[5].rpartition(":")[2] for row in rows if "FLOCK" in row[1:2] and len(row) > 5}
        return sorted(name for name in os.listdir(folder) if _inode(folder, name) in inodes)
    except OSError:
        return []


def _inode(folder, name):
    try:
        return str(os.stat(os.path.join(folder, name)).st_ino)
    except OSError:
        return ""


def outputs(request):
    """List the files of an attempt's output folder, by their paths in it, with their sizes in bytes."""
    top = os.path.join(attempt_folder(request["job_id"], request["attempt"]), "output")
    files = {}
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path):
                files[os.path.relpath(path, top)] = os.path.getsize(path)
    return {"files": files}


def prune(request):
    """Remove what attempts left that ended long ago; what says how they ended is kept, for late launches."""
    import shutil

    removed, freed = 0, 0
    jobs = os.path.join(BASE, "jobs")
    for job_id in os.listdir(jobs) if os.path.isdir(jobs) else []:
        with job_lock(job_id):  # a launch may be about to take an output over
            for name in filter(str.isdigit, os.listdir(os.path.join(jobs, job_id))):
                folder = os.path.join(jobs, job_id, name)
                age = time.time() - modified(os.path.join(folder, "exit.json"))
                kept = [os.path.join(folder, part) for part in ("work", "output", "log", "spec.json")]
                left = [path for path in kept if os.path.exists(path)]
                if age < request["older_than_s"] or not left:
                    continue
                freed += sum(map(weight, left))
                for path in left:
                    with contextlib.suppress(OSError):
                        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
                removed += 1
    return {"removed": removed, "freed_bytes": freed}


def modified(path):
    """When a file was last written; the future for one that is not there."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return float("inf")


def weight(path):
    """Bytes of a file, or of all files in a folder."""
    found = [path] if not os.path.isdir(path) else []
    for folder, _, names in os.walk(path):
        found += [os.path.join(folder, name) for name in names]
    return sum(os.lstat(item).st_size for item in found if os.path.lexists(item))


# --- starting an attempt ---


class Refused(Exception):
    """A slot cannot be had: a reason and a detail."""


def refused(reason, detail):
    """The answer to a launch that is not made."""
    return {"state": "refused", "reason": reason, "detail": detail}


def lock_slots(slots, attempt, shared):
    """Lock every slot, in one order for all. A dead runner's children hold the lock on: they have it open."""
    os.makedirs(os.path.join(BASE, "locks"), exist_ok=True)
    held = []
    try:
        for slot in sorted(slots, key=lambda item: item["uuid"]):
            path = os.path.join(BASE, "locks", slot["uuid"].replace("/", "_"))
            lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            held.append(lock)
            try:
                fcntl.flock(lock, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            except OSError:
                raise Refused("slot_in_use", slot["uuid"] + " is in use by an earlier attempt") from None
            floor = int(os.pread(lock, 32, 0) or b"0")
            if attempt < floor:
                raise Refused("stale_fence", f"{slot['uuid']} was given to attempt {floor} since")
            if slot["floor"] > floor:
                os.pwrite(lock, b"%020d" % slot["floor"], 0)
                os.fsync(lock)
    except BaseException:
        for lock in held:
            os.close(lock)
        raise
    return held


def start(folder, request, locks):
    """Make the folder and fork the runner; return once the job runs or could not be started."""
    staged = os.path.join(BASE, "staging", request["job_id"], str(request["attempt"]))
    os.makedirs(folder)
    if not (request.get("keep_output") and take_output(folder)):
        os.mkdir(os.path.join(folder, "output"))
    if os.path.isdir(staged):
        os.rename(staged, os.path.join(folder, "work"))
    else:
        os.mkdir(os.path.join(folder, "work"))
    # What the job is told by its environment may be secret, and is on no disk.
    write(folder, "spec.json", json.dumps({k: v for k, v in request.items() if k != "environment"}))
    write(folder, "lease", repr(request["deadline"]))
    read_end, write_end = os.pipe()
    if os.fork() == 0:
        os.close(read_end)
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        code = 1
        try:
            Runner(folder, request, locks).run(write_end)
            code = 0
        except BaseException:
            import traceback

            with open(os.path.join(folder, "log"), "a") as log:
                traceback.print_exc(file=log)
        finally:
            os._exit(code)
    os.close(write_end)
    for lock in locks:
        os.close(lock)
    os.wait()
    with os.fdopen(read_end) as pipe:
        pipe.read()  # ends when the runner holds its lock and has written its pid, or has died
    return state_of(folder, None)


def take_output(folder):
    """Go on with the output of the job's last attempt here; whether there was one.

    It is moved, so that whatever is left of that attempt no longer finds it under its name.
    """
    top, own = os.path.split(folder)
    earlier = sorted((int(name) for name in os.listdir(top) if name.isdigit() and name != own), reverse=True)
    for attempt in earlier:
        try:
            os.rename(os.path.join(top, str(attempt), "output"), os.path.join(folder, "output"))
            return True
        except OSError:
            continue
    return False


class Runner:
    """The process that stays with a job: it alone writes heartbeat and exit.json."""

    def __init__(self, folder, spec, locks):
        self.folder = folder
        self.spec = spec
        self.locks = locks
        self.ending = None
        self.child = 0
        self.heartbeat = -1
        self.listed = -1

    def run(self, ready):
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        null = os.open(os.devnull, os.O_RDWR)
        log = os.open(os.path.join(self.folder, "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        # Nothing of the launching command's stays open, or its connection would wait for us.
        keep = {0, 1, 2, ready, *self.locks}
        for name in os.listdir("/proc/self/fd"):
            if int(name) not in keep:
                with contextlib.suppress(OSError):
                    os.close(int(name))
        os.chdir(BASE)
        libc.prctl(PR_SET_NAME, runner_name(self.spec["attempt"]), 0, 0, 0)
        alive = os.open(os.path.join(self.folder, "pid"), os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(alive, fcntl.LOCK_EX)
        os.write(alive, b"%d" % os.getpid())
        self.entry = enter()
        signals = {signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP}
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        self.heartbeat = os.open(os.path.join(self.folder, "heartbeat"), os.O_WRONLY | os.O_CREAT, 0o600)
        self.listed = os.open(os.path.join(self.folder, "processes"), os.O_RDWR | os.O_CREAT, 0o600)
        self.beat()
        journal("begin", self.spec)
        os.close(ready)
        status = self.stage_and_spawn(libc)
        if status is None:
            status = self.wait(signals)
        self.end(status)

    def stage_and_spawn(self, libc):
        """Fetch inputs and start the job; an exit status if that fails."""
        try:
            for name, url in self.spec.get("downloads", {}).items():
                download(url, os.path.join(self.folder, "work", os.path.basename(name)))
        except Exception as error:
            print(f"questloop: input not fetched: {error}", file=sys.stderr, flush=True)
            self.ending = "input_unavailable"
            return 1
        argv = [
            item if isinstance(item, str) else os.path.join(self.folder, *item) for item in self.spec["argv"]
        ]
        environment = self.environment()
        runner = os.getpid()
        self.child = os.fork()
        if self.child:
            with contextlib.suppress(OSError):
                os.setpgid(self.child, self.child)
            return None
        try:
            os.setpgid(0, 0)
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != runner:
                os._exit(1)
            signal.pthread_sigmask(signal.SIG_SETMASK, set())
            for lock in self.locks:
                os.set_inheritable(lock, True)
            os.chdir(os.path.join(self.folder, "work"))
            os.execvpe(argv[0], argv, environment)
        except FileNotFoundError:
            print(f"questloop: command not found: {argv[0]}", file=sys.stderr, flush=True)
            os._exit(127)
        except BaseException as error:
            print(f"questloop: cannot run {argv[0]}: {error}", file=sys.stderr, flush=True)
            os._exit(126)

    def environment(self):
        """The variables of the job: this machine's, the job's own, and those of the fleet."""
        variables = dict(os.environ)
        variables.update(self.spec.get("environment", {}))
        programs = os.path.join(BASE, "venv", "bin")
        if os.path.isdir(programs):
            variables["PATH"] = programs + os.pathsep + variables.get("PATH", os.defpath)
        variables.update(
            {
                "CUDA_VISIBLE_DEVICES": ",".join(self.spec["cuda_devices"]),
                "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                "QUESTLOOP_JOB_ID": self.spec["job_id"],
                MARK: str(self.spec["attempt"]),
                "QUESTLOOP_OUTPUT_DIR": os.path.join(self.folder, "output"),
                "PYTHONUNBUFFERED": "1",
            }
        )
        return variables

    def wait(self, signals):
        """Until the job ends, is to be stopped, or its lease passes without word from a dispatcher."""
        interval = self.spec.get("heartbeat_s", 5)
        next_beat = clock() + min(interval, 0.5)  # soon, since what a job starts it starts early
        while True:
            status = reap(self.child)
            if status is not None:
                return status
            now = clock()
            if now >= next_beat:
                self.beat()
                next_beat = now + interval
            if not os.path.isdir(self.folder):  # removed by somebody: nobody could learn how the job ends
                self.ending = "folder_removed"
                return self.stop()
            if os.path.exists(os.path.join(self.folder, "stop")):
                self.ending = read(self.folder, "stop") or "cancelled"
                return self.stop()
            if now >= float(read(self.folder, "lease") or self.spec["deadline"]):
                self.ending = "lease_expired"
                return self.stop()
            caught = signal.sigtimedwait(signals, max(0.05, min(1.0, next_beat - now)))
            if caught is not None and caught.si_signo in (signal.SIGTERM, signal.SIGINT):
                self.ending = "killed"
                return self.stop()

    def stop(self):
        """TERM to the group, a grace, then KILL to all that carry the attempt's mark."""
        with contextlib.suppress(OSError):
            os.killpg(self.child, signal.SIGTERM)
        end = clock() + self.spec.get("grace_s", 10)
        while clock() < end:
            status = reap(self.child)
            if status is not None:
                return status
            time.sleep(0.05)
        with contextlib.suppress(OSError):
            os.killpg(self.child, signal.SIGKILL)
        while True:
            status = reap(self.child)
            if status is not None:
                return status
            time.sleep(0.05)

    def end(self, status):
        """Nothing of the job is left when exit.json appears, and its slots are free.

        The locks are closed, not unlocked: one that a process of the job had open all the same stays taken.
        """
        if self.child:
            with contextlib.suppress(OSError):
                os.killpg(self.child, signal.SIGKILL)
        while not end_processes(self.spec["attempt"], self.folder, os.getpid(), patience_s=5):
            self.beat()  # a process stuck in a driver: the slots stay ours
        journal("end", self.spec)
        for lock in self.locks:
            os.close(lock)
        ending = self.ending or ("exited" if status >= 0 else "signalled")
        text = json.dumps({"ending": ending, "started": True, "exit_code": status, "clock": clock()})
        while os.path.isdir(self.folder):
            try:
                write(self.folder, "exit.json", text)
                break
            except OSError:  # a full disk: the outcome is worth waiting for
                self.beat()
                time.sleep(1)
        with contextlib.suppress(OSError):
            os.unlink(self.entry)

    def beat(self):
        """In place, so that a full disk does not stop it.

        The list of processes is for the case that this one is killed: then it is no longer their ancestor.
        """
        with contextlib.suppress(OSError):
            os.pwrite(self.heartbeat, b"%020.3f" % clock(), 0)
            found = [(pid, started(pid)) for pid in sorted(descendants([os.getpid()]))]
            text = json.dumps(found).encode()
            os.pwrite(self.listed, text, 0)
            os.ftruncate(self.listed, len(text))


# --- looking at an attempt ---


def state_of(folder, deadline):
    """How an attempt stands; hold the job's lock.

    One of absent, running, exited, ending (leftovers of a dead runner), gone, and removed: it was begun, and
    its folder is not there any more.
    """
    if not os.path.isdir(folder):
        return state_of_removed(folder)
    state = {"log_size": size(folder, "log")}
    text = read(folder, "exit.json")
    if text:
        return dict(state, state="exited", exit=json.loads(text))
    if is_locked(folder):
        if deadline is not None and deadline > float(read(folder, "lease") or 0):
            write(folder, "lease", repr(deadline))
        beat = float(read(folder, "heartbeat") or 0)
        return dict(state, state="running", heartbeat_age_s=clock() - beat)
    text = read(folder, "exit.json")  # written between the two looks
    if text:
        return dict(state, state="exited", exit=json.loads(text), log_size=size(folder, "log"))
    attempt = int(os.path.basename(folder))
    return dict(state, state="gone" if end_processes(attempt, folder, None, patience_s=2) else "ending")


def state_of_removed(folder):
    """Absent if the attempt was never begun here; what lives on of one whose folder was removed is ended."""
    job_id, attempt = os.path.split(os.path.relpath(folder, os.path.join(BASE, "jobs")))
    runner = find_runner(attempt)
    if runner is None and not was_begun(job_id, int(attempt)):
        return {"state": "absent"}
    left = not end_processes(int(attempt), folder, runner, patience_s=2)
    if runner is not None:
        send(runner, signal.SIGCONT)
        send(runner, signal.SIGTERM)  # it sees that its folder is gone, and goes
        left = True
    return {"state": "ending" if left else "removed", "log_size": 0}


def is_locked(folder):
    """Whether the runner lives: it alone holds the lock on its pid file, which its job does not inherit."""
    return held(os.path.join(folder, "pid"))


def held(path):
    """Whether a process holds the lock of a file."""
    try:
        lock = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        return not try_lock(lock)
    finally:
        os.close(lock)


def was_begun(job_id, attempt):
    """Whether the journal tells of this attempt, whatever became of its folder."""
    begin = '"event": "begin"'
    ids = '"job_id": ' + json.dumps(job_id) + ', "attempt": ' + str(attempt) + ","
    try:
        with open(os.path.join(BASE, "journal.jsonl")) as file:
            return any(begin in line and ids in line for line in file)
    except OSError:
        return False


# --- the processes of an attempt ---


def enter():
    """Say that a runner lives, by a file that it holds a lock on; its path."""
    folder = os.path.join(BASE, "runners")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, str(os.getpid()))
    fcntl.flock(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), fcntl.LOCK_EX)
    return path


def living_runners():
    """Process ids of the runners here; entries of dead ones are removed."""
    folder = os.path.join(BASE, "runners")
    found = []
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        if held(os.path.join(folder, name)):
            found.append(int(name))
        else:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, name))
    return found


def runner_name(attempt):
    """The name under which the kernel lists the runner of an attempt."""
    return b"ql-%d" % (int(attempt) % 10**12)  # the kernel keeps fifteen letters


def find_runner(attempt):
    """The process id of an attempt's runner by its name, where all files may be gone; else None."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/" + name + "/comm", "rb") as file:
                if file.read().strip() == runner_name(attempt) and os.readlink(
                    "/proc/" + name + "/cwd"
                ).startswith(BASE):
                    return int(name)
        except OSError:
            continue
    return None


def own_processes(attempt=None):
    """Process ids that carry the mark of one attempt, or of any."""
    mark = (MARK + "=" + ("" if attempt is None else str(attempt))).encode()
    ours = f"QUESTLOOP_OUTPUT_DIR={BASE}/jobs/".encode()
    found = set()
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                variables = file.read().split(b"\0")
        except OSError:
            continue
        marked = any(item.startswith(mark) if attempt is None else item == mark for item in variables)
        if marked and any(item.startswith(ours) for item in variables):
            found.add(int(name))
    return found


def descendants(ancestors, find=None):
    """Process ids of all that comes from these processes, whatever it calls itself.

    A runner takes in whoever loses its parent below it, so what a job starts stays below its runner.
    """
    if find is None:
        listed = os.path.exists(f"/proc/self/task/{os.getpid()}/children")
        find = children_of if listed else by_parent()
    found, new = set(), list(ancestors)
    while new:
        new = [child for parent in new for child in find(parent) if child not in found]
        found.update(new)
    return found - {os.getpid()}


def children_of(pid):
    """The kernel's own list, which costs nothing for the processes of others; it may miss one that ends."""
    found = []  # type: list[int]
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children") as file:
                found += map(int, file.read().split())
    return found


def by_parent():
    """From a process to its children, by a look at all that there are."""
    children = {}  # type: dict[int, list[int]]
    for name in filter(str.isdigit, os.listdir("/proc")):
        stat = stat_of(name)
        if stat is not None:
            children.setdefault(int(stat[1]), []).append(int(name))
    return lambda pid: children.get(pid, [])


def stat_of(pid):
    """The fields of a process's stat from its state on; None for one that has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[:1] in ([b"Z"], [b"X"], []) else fields


def started(pid):
    """When a process began, in clock ticks since boot: with its id it names one process for good."""
    stat = stat_of(pid)
    return None if stat is None else int(stat[19])


def listed_processes(folder):
    """Those of the processes that a dead runner wrote down which still live, with all that came from them."""
    try:
        known = json.loads(read(folder, "processes") or "[]")
    except ValueError:
        return set()
    living = {pid for pid, start in known if start is not None and started(pid) == start}
    return living | descendants(living)


def end_processes(attempt, folder, runner, patience_s=30):
    """KILL every process of an attempt, by its mark, its ancestor or the list; whether none is left."""
    end = time.monotonic() + patience_s
    while True:
        reap(-1)
        below = descendants([runner]) if runner is not None else listed_processes(folder)
        left = {pid for pid in own_processes(attempt) | below if started(pid) is not None}
        if not left and runner is not None:  # the kernel's list may have missed one; a look at all does not
            left = descendants([runner], by_parent())
        if not left or time.monotonic() > end:
            return not left
        for pid in left:
            send(pid, signal.SIGKILL)
        time.sleep(0.05)


def reap(child):
    """Collect ended children; the exit status of `child` if it is among them, negative for a signal."""
    result = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return result
        if pid == 0:
            return result
        if pid == child:
            result = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


# --- small things ---


def clock():
    """Seconds since boot, time asleep included: never set back."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id():
    """Text that differs from boot to boot of this machine."""
    with open(BOOT_ID_FILE) as file:
        return file.read().strip()


def attempt_folder(job_id, attempt):
    """Where all files of an attempt lie."""
    return os.path.join(BASE, "jobs", job_id, str(int(attempt)))


@contextlib.contextmanager
def job_lock(job_id):
    """One look or change at a time; a launch cut off half way is seen whole or not at all."""
    if not job_id or "/" in job_id or job_id.startswith("."):
        raise ValueError(f"job id {job_id!r}")
    folder = os.path.join(BASE, "jobs", job_id)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def ask_smi(request, lock):
    """Answers by the names of the queries, or why there are none."""
    import subprocess

    end = time.monotonic() + request["timeout_s"]
    if not wait_until(lambda: try_lock(lock), request["timeout_s"]):
        return {"error": "hung", "detail": "an nvidia-smi started earlier has not returned"}
    os.set_inheritable(lock, True)
    try:
        return {name: run_smi(arguments, end, lock) for name, arguments in request["queries"].items()}
    except FileNotFoundError:
        return {"error": "absent", "detail": "nvidia-smi is not installed"}
    except subprocess.TimeoutExpired:
        return {"error": "hung", "detail": "nvidia-smi did not return in time"}


def run_smi(arguments, end, lock):
    """Run nvidia-smi until the time `end`; it holds `lock` even where it hangs in the driver."""
    import subprocess

    process = subprocess.Popen(
        ["nvidia-smi", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=(lock,),
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=max(0.1, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # one stuck in the driver does not go; it keeps the lock
        raise
    return {"exit_code": process.returncode, "output": output.decode("utf-8", "replace")}


def download(url, path):
    """Fetch an HTTP URL into a file, which is whole once it is there."""
    import shutil
    import urllib.request

    if not url.startswith(("https://", "http://")):
        raise ValueError("not an http URL: " + url)
    with urllib.request.urlopen(url, timeout=60) as source, open(path + ".part", "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
    os.replace(path + ".part", path)


def journal(event, spec):
    """Add the beginning or end of an attempt to the machine's journal."""
    line = {
        "event": event,
        "clock": clock(),
        "boot_id": boot_id(),
        "job_id": spec["job_id"],
        "attempt": spec["attempt"],
        "shared": spec["shared"],
        "slots": [slot["uuid"] for slot in spec["slots"]],
    }
    with contextlib.suppress(OSError):
        file = os.open(os.path.join(BASE, "journal.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(file, (json.dumps(line) + "\n").encode())
        os.close(file)


def write(folder, name, text):
    """Replace a file as a whole, and have it on disk."""
    path = os.path.join(folder, name)
    partial = f"{path}.{os.getpid()}.tmp"
    with open(partial, "w") as file:
        file.write(text)
        file.flush()
        if name == "exit.json":
            os.fsync(file.fileno())
    os.replace(partial, path)


def read(folder, name):
    """The text of a file; empty where there is none."""
    try:
        with open(os.path.join(folder, name)) as file:
            return file.read()
    except FileNotFoundError:
        return ""


def read_int(folder, name):
    """The number in a file; 0 where there is none."""
    text = read(folder, name)
    return int(text) if text.isdigit() else 0


def size(folder, name):
    """Bytes of a file; 0 where there is none."""
    try:
        return os.stat(os.path.join(folder, name)).st_size
    except FileNotFoundError:
        return 0


def send(pid, number):
    """Send a signal to a process, if there is one that may be signalled."""
    if pid > 0:
        try:
            os.kill(pid, number)
        except OSError as error:
            if error.errno not in (errno.ESRCH, errno.EPERM):
                raise


def try_lock(file):
    """Lock an open file; False where another process holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False


def wait_until(condition, seconds):
    """Wait for a condition, `seconds` at most; whether it holds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


COMMANDS = {
    "hello": hello,
    "launch": launch,
    "watch": watch,
    "kill": kill,
    "poll": poll,
    "outputs": outputs,
    "prune": prune,
}

if __name__ == "__main__":
    main()
