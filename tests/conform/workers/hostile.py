#!/usr/bin/env python3
"""A worker of the module `copy` (outputs are the inputs) that misbehaves.

usage: hostile.py [--mode MODE] [--at N] [--version V] [--adapter A]
                  [--environment JSON] [--count FILE] [--note FILE]
                  [--delay SECONDS] [--ranks R]

It is good but for the case whose parameter `n` is --at, where it does what
MODE says: crash, hang, answer nonsense, leave broken files or processes. Its
stderr then holds "about to MODE".
"""
import argparse
import json
import os
import signal
import struct
import sys
import time

OPTIONS = argparse.ArgumentParser()
OPTIONS.add_argument("--mode", default="")
OPTIONS.add_argument("--at", type=int, default=2)
OPTIONS.add_argument("--version", default="1")
OPTIONS.add_argument("--adapter", type=int, default=1)
OPTIONS.add_argument("--environment", default="{}")
OPTIONS.add_argument("--count")  # gets a line for every case that is run
OPTIONS.add_argument("--note")  # gets the ids of processes left behind
OPTIONS.add_argument("--delay", type=float, default=0)
OPTIONS.add_argument("--ranks", type=int, default=1)
ARGS = OPTIONS.parse_args()


def say(text, end="\n"):
    sys.stdout.write(text + end)
    sys.stdout.flush()


def note(pid):
    with open(ARGS.note, "a", encoding="utf-8") as file:
        file.write(f"{pid}\n")


def forked(then):
    """A child that sleeps with our stdout open, and one that has left for a
    session of its own."""
    for leave in (lambda: None, os.setsid):
        pid = os.fork()
        if pid == 0:
            leave()
            time.sleep(600)
            os._exit(0)
        note(pid)
    then()


def fill_memory():
    blocks = []
    while True:
        blocks.append(bytearray(os.urandom(1 << 20) * 16))


def write_raw(request, data, rank=0):
    with open(f"{request['outputs']}.rank{rank}.safetensors", "wb") as file:
        file.write(data)


def header_of(entries):
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text


def answer_for(request, **more):
    answer = {"type": "result", "id": request["id"], "status": "ok",
              "contract": {}, "seconds": 0.001, "peak_bytes": 1}
    answer.update(more)
    return json.dumps(answer)


def broken_files(mode, request):
    """Modes that answer "ok" and leave something else than a good file."""
    path = request["outputs"] + ".rank0.safetensors"
    with open(request["inputs"], "rb") as file:
        good = file.read()
    if mode == "truncated":
        write_raw(request, good[:-5])
    elif mode == "cut-header":
        write_raw(request, good[:20])
    elif mode == "empty-file":
        write_raw(request, b"")
    elif mode == "huge-header":
        write_raw(request, struct.pack("<Q", 1 << 63) + b"{")
    elif mode == "overlap":
        entry = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}
        write_raw(request, header_of({"x": entry, "y": entry}) + bytes(16))
    elif mode == "huge-shape":
        entry = {"dtype": "F32", "shape": [1 << 62, 1 << 62],
                 "data_offsets": [0, 16]}
        write_raw(request, header_of({"x": entry}) + bytes(16))
    elif mode == "pickle":
        write_raw(request, b"\x80\x02cposix\nsystem\nX\x02\0\0\0idR.")
    elif mode == "fifo":
        os.mkfifo(path)
    elif mode == "folder":
        os.mkdir(path)
    elif mode == "link":
        os.symlink("/dev/zero", path)
    elif mode != "missing":
        return False
    say(answer_for(request))
    return True


def misbehave(mode, request):
    """True where the request is dealt with."""
    print("about to", mode, file=sys.stderr, flush=True)
    if mode in ("segv", "kill", "abort"):
        os.kill(os.getpid(), {"segv": signal.SIGSEGV, "kill": signal.SIGKILL,
                              "abort": signal.SIGABRT}[mode])
    elif mode == "exit":
        os._exit(3)
    elif mode == "close":
        os.close(1)
        time.sleep(600)
    elif mode == "sleep":
        time.sleep(600)
    elif mode == "garbage":
        say("Traceback (most recent call last)")
    elif mode == "binary":
        os.write(1, b"\xff\xfe\0\x01\n")
    elif mode == "stdout":
        say("a library says hello")
        return False
    elif mode == "half":
        say('{"type": "result", "id": 1, "sta', end="")
        os._exit(0)
    elif mode == "half-hang":
        say('{"type": "result", "id": 1, "sta', end="")
        time.sleep(600)
    elif mode == "long":
        while True:
            say("x" * (1 << 20), end="")
    elif mode == "deep":
        say("[" * 100000)
    elif mode == "other-id":
        say(answer_for({"id": request["id"] + 1}))
    elif mode == "hello-again":
        say(json.dumps({"type": "hello", "protocol": 1}))
    elif mode == "negative-time":
        say(answer_for(request, seconds=-1))
    elif mode == "memory":
        fill_memory()
    elif mode == "fork-exit":
        forked(lambda: os._exit(0))
    elif mode == "fork":
        forked(lambda: None)
        return False
    elif mode == "flood":
        for _ in range(64):
            os.write(2, b"noise\n" * 100000)
        return False
    elif mode == "unsupported":
        say(answer_for(request, status="unsupported", error="unsupported",
                       message="no n of 2"))
    elif mode == "refuse":
        say(answer_for(request, status="error", error="ValueError",
                       message="n: 2 is refused"))
    elif mode == "fault":
        say(answer_for(request, status="error", error="NameError",
                       message="name 'y' is not defined"))
    elif mode == "wrong":
        with open(request["inputs"], "rb") as file:
            data = bytearray(file.read())
        data[-1] ^= 0x40
        write_raw(request, bytes(data))
        say(answer_for(request))
    elif mode == "random":
        with open(request["inputs"], "rb") as file:
            data = bytearray(file.read())
        data[-4] ^= os.urandom(1)[0] | 1
        write_raw(request, bytes(data))
        say(answer_for(request))
    elif not broken_files(mode, request):
        sys.exit(f"mode {mode}?")
    return True


def run(request):
    if ARGS.count:
        with open(ARGS.count, "a", encoding="utf-8") as file:
            file.write(request["case"] + "\n")
    time.sleep(ARGS.delay)
    at = request["parameters"]["n"] == ARGS.at
    if ARGS.mode and at and misbehave(ARGS.mode, request):
        return
    with open(request["inputs"], "rb") as file:
        data = file.read()
    for rank in range(ARGS.ranks):
        write_raw(request, data, rank)
    say(answer_for(request))


def hello():
    if ARGS.mode == "no-hello":
        print("about to no-hello", file=sys.stderr, flush=True)
        time.sleep(600)
    if ARGS.mode == "exit-at-hello":
        sys.exit("ImportError: no module named torch")
    if ARGS.mode == "other-protocol":
        say('{"type": "hello", "protocol": 99}')
        return
    say(json.dumps({"type": "hello", "protocol": 1, "implementation": "copy",
                    "version": ARGS.version, "device": "cpu",
                    "launcher": "self",
                    "modules": {"copy": {"adapter": ARGS.adapter}},
                    "environment": json.loads(ARGS.environment)}))


def main():
    for line in sys.stdin:
        request = json.loads(line)
        if request["type"] == "bye":
            if ARGS.mode == "ignore-bye":
                time.sleep(600)
            return
        if request["type"] == "hello":
            hello()
        else:
            run(request)


main()
