"""Programs that run side by side, without starting any, on a clock that only sleeping moves."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from unittest import mock

import pytest
import torch
from fairseq.dataclass.configs import DistributedTrainingConfig
from fairseq.distributed.utils import infer_init_method
from omegaconf import OmegaConf

from ode_transformer import processors
from ode_transformer.experiments.runs import processes


@pytest.fixture
def now(monkeypatch):
    """Returns the seconds that this process has slept."""
    slept = [0.0]
    monkeypatch.setattr(processes.time, "sleep", slept.append)
    monkeypatch.setattr(processes.time, "monotonic", lambda: sum(slept))
    return lambda: sum(slept)


class Program:
    """A program that ends at a time."""

    def __init__(self, now, end, status=0):
        self.now, self.end, self.returncode, self.told, self.pid = now, end, status, [], 0

    def poll(self):
        return self.returncode if self.now() >= self.end else None

    def terminate(self):
        self.told.append("to end")

    def send_signal(self, number):
        assert number == signal.SIGCONT

    def wait(self):
        self.told.append("waited for")


def test_a_program_takes_the_place_of_one_that_has_ended(now):
    seconds, places, ended = {"a": 5, "b": 1, "c": 8, "d": 1}, [], []

    def start(job, place):
        places.append((job, place))
        return Program(now, now() + seconds[job], status=job == "b")

    processes.side_by_side("abcd", 2, start, lambda *its: ended.append(its))
    assert places == [("a", 0), ("b", 1), ("c", 1), ("d", 0)]
    assert [its[:2] for its in ended] == [("b", 1), ("a", 0), ("d", 0), ("c", 0)]
    assert [its[2] for its in ended] == pytest.approx([1, 5, 1, 8], abs=0.3)


def test_programs_that_run_when_the_time_is_over_are_ended_and_no_others_begun(now):
    time = processes.LEAST + 10
    seconds, programs, ended = {"short": 20, "long": 99, "late": 1}, {}, []

    def start(job, place):
        programs[job] = Program(now, seconds[job])
        return programs[job]

    processes.side_by_side(seconds, 2, start, lambda job, *_: ended.append(job), lambda: time - now())
    assert list(programs) == ["short", "long"] and ended == ["short"]
    assert programs["short"].told == [] and programs["long"].told == ["to end", "waited for"]


def test_a_program_that_is_stopped_is_ended():
    program, left = subprocess.Popen(["sleep", "60"]), iter([99, 99, 0])
    program.send_signal(signal.SIGSTOP)
    processes.side_by_side("a", 1, lambda *_: program, lambda *_: None, lambda: next(left))
    assert program.returncode == -signal.SIGTERM


def test_what_a_script_started_ends_with_it(tmp_path):
    """A shell that is terminated leaves its program running, which would hold the lock."""
    with processes.alone_in(tmp_path) as lock:
        script = subprocess.Popen(["bash", "-c", "echo; sleep 60; true"], stdout=subprocess.PIPE, pass_fds=[lock])
        script.stdout.readline()
        while not processes._started_by(script.pid):
            time.sleep(0.01)
        processes._tell_to_end(script)
        assert script.wait() == -signal.SIGTERM and script.stdout.read() == b"", "nobody else has the pipe"


def test_programs_take_the_python_and_the_processors_of_the_command(monkeypatch):
    for name in ("VIRTUAL_ENV", processors.VARIABLE):
        monkeypatch.delenv(name, raising=False)
    assert processes.environment({})["VIRTUAL_ENV"] == sys.prefix
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8))
    for quota, threads in (("max 100000", None), ("250000 100000", "2")):
        monkeypatch.setattr(processors, "text", lambda path, quota=quota: quota)
        assert processes.environment({}).get(processors.VARIABLE) == threads
    monkeypatch.setenv(processors.VARIABLE, "3")
    assert processes.environment({})[processors.VARIABLE] == "3"


@pytest.mark.parametrize("resumable", [True, False])
def test_what_interrupts_programs_ends_them(now, resumable, monkeypatch, capsys):
    """That the same command goes on is said once, if it does."""
    programs = {job: Program(now, 99) for job in "ab"}
    monkeypatch.setattr(processes.time, "sleep", lambda _: os.kill(os.getpid(), signal.SIGTERM))
    stopped = pytest.raises(SystemExit)
    with stopped, processes.terminable(resumable), processes.terminable(resumable=True):  # as a step that runs
        processes.side_by_side("ab", 2, lambda job, place: programs[job], lambda *_: None)
    assert [program.told for program in programs.values()] == [["to end", "waited for"]] * 2
    assert capsys.readouterr().err.count("the same command does the rest") == resumable


def test_variables_of_a_job_do_not_make_of_several_gpus_one(monkeypatch):
    """As in a pod of Kubernetes: fairseq would take its rank and the number of processes from them."""
    for name, value in {"MASTER_ADDR": "there", "MASTER_PORT": "29500", "WORLD_SIZE": "1", "RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(os, "environ", processes.environment({}))
    cfg = OmegaConf.structured(DistributedTrainingConfig(distributed_world_size=2, tpu=False))
    infer_init_method(cfg)
    assert (cfg.distributed_world_size, cfg.distributed_no_spawn) == (2, False)


def test_a_folder_of_a_file_system_without_locks_can_be_worked_in(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(fcntl, "flock", mock.Mock(side_effect=OSError(errno.ENOSYS, "Function not implemented")))
    with processes.alone_in(tmp_path / "run"):
        assert "this file system has no locks" in capsys.readouterr().err


def test_how_a_program_failed_is_told():
    assert processes.ending(-9) == "was killed by SIGKILL (out of memory?)"
    assert processes.ending(-15) == "was killed by SIGTERM" and processes.ending(3) == "failed with status 3"
