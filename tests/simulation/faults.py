"""Faults between two steps: rows vanish, the database goes back, queues are paused, processes crash and sleep."""

from __future__ import annotations

from tests.simulation.environment import Environment, Process
from tests.simulation.gates import pause_queue, queue_is_paused, unpause_queue


class Faults(Environment):
    """The faults that a world draws before each step of a process."""

    def _save_or_go_back(self) -> None:
        """Make a copy of the database, or replace the database by the last copy while all processes continue.

        Everything after the copy is lost, submissions included: the client sends them again.
        """
        if self.saved is None or self.losing.random() < 0.5:
            self.saved = (self.db.rows(), self.checkers.memory())
            return
        rows, memory = self.saved
        self.trace.append(f"{self.db.time:.3f} the database goes back")
        self.db.go_back_to(rows)
        self.checkers.go_back_to(memory)
        client = next(process for process in self.processes if process.name == "client")
        if client.running is not None:
            self._kill(client)
        client.wake_at = self.db.time
        self._begin(client)

    def _pause_or_unpause_a_queue(self) -> None:
        queue = self.pausing.choice(["default", "heavy"])
        if queue_is_paused(self.db, queue):
            unpause_queue(self.db, queue)
        else:
            pause_queue(self.db, queue)

    def _lose_a_row(self) -> None:
        """Delete a queue row, leased or not, or the row of a process, as something outside the engine could."""
        if self.store.random() < 0.1:
            processes = self.store.choice([self.db.workers, self.db.orchestrators])
            shared = {transaction.me for transaction in self.db.transactions}
            if ids := sorted(processes.keys() - shared):
                del processes[self.store.choice(ids)]
            return
        keys = sorted(key for key in self.db.queue if not self.db.row_locked(key))
        if keys:
            key = self.store.choice(keys)
            self.db.history.ended[(key, self.db.queue.pop(key)["epoch"])] = "vanished"
            self.db.dirty.add(key[0])

    def _misfortune(self, process: Process) -> bool:
        """Perhaps crash the process, which ends its locks; or let it sleep, perhaps until its lease has expired."""
        drawn = self.chance.random()
        if drawn < self.mix.crash:
            self._die(process)
            return True
        if drawn < self.mix.crash + self.mix.pause:
            process.wake_at = self.db.time + self.chance.choice([2.0, 12.0, 25.0])
            self.trace.append(f"{self.db.time:.3f} {process.name} sleeps until {process.wake_at:.3f}")
            return True
        return False

    def _die(self, process: Process) -> None:
        self.trace.append(f"{self.db.time:.3f} {process.name} crashes")
        self._kill(process)
        process.wake_at = self.db.time + self.chance.choice([0.5, 3.0, 15.0])
