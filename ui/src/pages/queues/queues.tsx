/** The queues, and the processes that serve them. */

import { Link } from "wouter";

import { useRead } from "../../api/hooks";
import { Empty, Shown } from "../../components/states";
import { ListPage, listOf } from "../../components/list_page";
import { When } from "../../components/time";
import { count, counted, duration } from "../../words/numbers";

const OFTEN_MS = 3_000;

export function Queues() {
  const queues = useRead("/api/v1/queues", {}, { every: OFTEN_MS });
  const workers = useRead("/api/v1/workers", {}, { every: OFTEN_MS });
  const orchestrators = useRead("/api/v1/orchestrators", {}, { every: OFTEN_MS });
  return (
    <div className="stack">
      <h1>Workers and queues</h1>
      <Unserved />
      <ListPage
        title="Queues"
        level={2}
        found={listOf(queues)}
        idOf={(queue) => queue.queue}
        empty={{ title: "No task waits or runs." }}
        columns={[
          { title: "queue", cell: (one) => <strong>{one.queue}</strong> },
          { title: "waiting", isNumber: true, cell: (one) => count(one.queued) },
          { title: "held", isNumber: true, cell: (one) => count(one.held) },
          { title: "running", isNumber: true, cell: (one) => count(one.running) },
          { title: "oldest", cell: (one) => <When at={one.since} /> },
          { title: "workers", cell: (one) => (one.workers.length === 0 ? "none" : one.workers.join(", ")) },
          {
            title: "",
            cell: (one) =>
              one.paused === null ? null : (
                <span className="held">
                  ‖ paused by {one.paused.by}
                  {one.paused.reason ? `: ${one.paused.reason}` : ""} · <Link href="/gates">pauses</Link>
                </span>
              ),
          },
        ]}
      />
      <ListPage
        title="Workers"
        level={2}
        found={listOf(workers)}
        idOf={(worker) => String(worker.id)}
        empty={{ title: "No worker is running: tasks wait.", command: "holdfast worker --handlers MODULE" }}
        columns={[
          { title: "worker", cell: (one) => <strong>{one.name}</strong> },
          { title: "version", cell: (one) => one.version },
          { title: "queues", cell: (one) => one.queues?.join(", ") ?? "every queue" },
          { title: "busy", isNumber: true, cell: (one) => `${count(one.tasks)} of ${count(one.concurrency)}` },
          { title: "handlers", cell: (one) => <span title={one.handlers.join("\n")}>{counted(one.handlers.length, "handler")}</span> },
          { title: "up since", cell: (one) => <When at={one.started_at} /> },
          { title: "lease ends in", isNumber: true, cell: (one) => duration(one.lease_seconds) },
          {
            title: "",
            cell: (one) =>
              one.changed_files.length === 0 ? null : (
                <span className="held" title={one.changed_files.join("\n")}>
                  runs older code: {counted(one.changed_files.length, "file")} changed
                </span>
              ),
          },
        ]}
      />
      <ListPage
        title="Orchestrators"
        level={2}
        found={listOf(orchestrators)}
        idOf={(one) => String(one.id)}
        empty={{ title: "No orchestrator is running: jobs do not move.", command: "holdfast orchestrator" }}
        columns={[
          { title: "orchestrator", cell: (one) => <strong>{one.name}</strong> },
          { title: "version", cell: (one) => one.version },
          { title: "jobs", isNumber: true, cell: (one) => count(one.jobs) },
          { title: "oldest job", cell: (one) => (one.oldest_job === null ? "" : <Link href={`/jobs/${one.oldest_job}`}>…{one.oldest_job.slice(-8)}</Link>) },
          { title: "up since", cell: (one) => <When at={one.started_at} /> },
          { title: "lease ends in", isNumber: true, cell: (one) => duration(one.lease_seconds) },
        ]}
      />
    </div>
  );
}

function Unserved() {
  const fleet = useRead("/api/v1/fleet", {}, { every: OFTEN_MS });
  return (
    <Shown of={fleet} rows={1}>
      {(found) => (
        <>
          {found.unserved.map((one) => (
            <div key={`${one.queue} ${one.handler}`} className="banner tone-partial">
              <p>
                <strong>{counted(one.tasks, "task")} wait in the queue {one.queue}</strong>:{" "}
                {one.cause === "no_worker_for_handler" ? `no worker has the handler ${one.handler}.` : "no worker serves it."} Since{" "}
                <When at={one.since} />.
              </p>
              <Empty title="A worker that takes them:" command={`holdfast worker --queue ${one.queue} --handlers MODULE`} />
            </div>
          ))}
          {found.without_owner.map((one) => (
            <div key={one.owner_id ?? -1} className="banner tone-partial">
              <p>
                <strong>{counted(one.jobs, "job")} without a live orchestrator</strong>
                {one.owner === null ? "" : ` (the last one was ${one.owner})`}, since <When at={one.since} />. The oldest is{" "}
                <Link href={`/jobs/${one.oldest_job}`}>…{one.oldest_job.slice(-8)}</Link>.
              </p>
            </div>
          ))}
        </>
      )}
    </Shown>
  );
}
