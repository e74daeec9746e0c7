"""Time of ask and tell by the number of finished trials, for several optimizers that take turns.

    benches/ask_tell.py --peer 'process-gp=python3 benches/peers/engine_peer.py gaussian_process_bandit' \
        --peer 'rustuna=benches/peers/run.sh rustuna tpe' [--history 10,50,100,500,1000,10000] [--repeats 7] [--dims 5]

Each peer is a process that speaks the protocol of `tunesmith bench --external`. All of them get the same random history of
Ackley's function, which is not measured. Then they take turns: a step is one suggestion and its result. The table has the
median wall time of a step in milliseconds, and the first step, which processes the history. A peer leaves the run once a
step takes longer than `--step-limit` seconds.
"""

import argparse
import json
import math
import random
import shlex
import statistics
import subprocess
import time


class Peer:
    """A process that suggests."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def call(self, **request):
        """Sends a request and returns the response."""
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        response = json.loads(self.process.stdout.readline())
        if "error" in response or "unsupported" in response:
            raise SystemExit(f"{self.name}: {response}")
        return response

    def close(self):
        """Ends the process."""
        self.process.stdin.close()
        self.process.wait()


def ackley(point):
    """Returns Ackley's function of a point with coordinates from -5 to 10."""
    mean = sum(x * x for x in point) / len(point)
    waves = sum(math.cos(2 * math.pi * x) for x in point) / len(point)
    return -20 * math.exp(-0.2 * math.sqrt(mean)) - math.exp(waves) + 20 + math.e


def main():
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", action="append", required=True, metavar="NAME=COMMAND")
    parser.add_argument("--history", default="10,50,100,500,1000,10000")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--dims", type=int, default=5)
    parser.add_argument("--step-limit", type=float, default=20.0)
    arguments = parser.parse_args()
    names = [f"x{index}" for index in range(arguments.dims)]
    parameters = [{"name": name, "type": "DOUBLE", "min": -5.0, "max": 10.0, "scale": "UNIT_LINEAR_SCALE"} for name in names]
    problem = {"parameters": parameters, "metrics": [{"name": "loss", "goal": "MINIMIZE"}], "constraints": 0}
    commands = dict(peer.split("=", 1) for peer in arguments.peer)
    slow = set()
    print("| finished trials | " + " | ".join(commands) + " |")
    print("|" + "---|" * (len(commands) + 1))
    for count in map(int, arguments.history.split(",")):
        peers = [Peer(name, command) for name, command in commands.items() if name not in slow]
        draw = random.Random(count)
        history = [[draw.uniform(-5, 10) for _ in names] for _ in range(count)]
        for peer in peers:
            peer.call(method="create", seed=1, budget=count + 100, parallel=1, problem=problem)
            for number, point in enumerate(history, 1):
                values = dict(zip(names, point))
                peer.call(method="complete", trial=number, parameters=values, metrics={"loss": ackley(point)}, constraints=[])
        times = {peer.name: [] for peer in peers}
        for step in range(arguments.repeats + 1):
            for peer in peers:
                number = count + 1 + step
                begin = time.perf_counter()
                (point,) = peer.call(method="suggest", trials=[number])["suggestions"]
                loss = ackley([point[name] for name in names])
                peer.call(method="complete", trial=number, parameters=point, metrics={"loss": loss}, constraints=[])
                times[peer.name].append(time.perf_counter() - begin)
        for peer in peers:
            peer.close()
            if max(times[peer.name]) > arguments.step_limit:
                slow.add(peer.name)
        cells = []
        for name in commands:
            first, *rest = times.get(name, [math.nan])
            cells.append(f"{statistics.median(rest) * 1e3:.2f} (first {first * 1e3:.1f})" if rest else "–")
        print(f"| {count} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
