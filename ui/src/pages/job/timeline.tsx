/** When the nodes ran: one row for each, waiting and running told apart, and where tasks ended, as a density. */

import { useQueries } from "@tanstack/react-query";

import { read, useRead } from "../../api/hooks";
import { Shown } from "../../components/states";
import { lookOf } from "../../words/status";
import { duration } from "../../words/numbers";
import { absolute, clock } from "../../words/times";
import type { Schemas } from "../../api/client";
import type { Job } from "./job";

type Timeline = Schemas["Timeline"];
type Row = Timeline["nodes"][number];
type Task = Schemas["Task"];
const BUCKETS = 120;
const MARKS = 5;
const MOST_ASKED = 40;

export function Timeline({ job }: { readonly job: Job }) {
  const timeline = useRead("/api/v1/jobs/{job_id}/timeline", { path: { job_id: job.job_id }, query: { buckets: BUCKETS } });
  const tasks = useOwnTasks(job, timeline.data);
  return <Shown of={timeline}>{(found) => <Chart timeline={found} tasks={tasks} />}</Shown>;
}

/** The tasks of nodes that have one: they know when the last attempt began, and how many there were before. */
function useOwnTasks(job: Job, timeline: Timeline | undefined): ReadonlyMap<string, Task> {
  const nodes = (timeline?.nodes ?? []).filter((node) => node.type === "task" && node.started_at !== null).slice(0, MOST_ASKED);
  return useQueries({
    queries: nodes.map((node) => {
      const params = { path: { job_id: job.job_id, node: node.node }, query: { limit: 1 } };
      return {
        queryKey: ["/api/v1/jobs/{job_id}/nodes/{node}/tasks", params],
        queryFn: ({ signal }: { readonly signal: AbortSignal }) => read("/api/v1/jobs/{job_id}/nodes/{node}/tasks", params, signal),
      };
    }),
    combine: tasksByNode,
  });
}

function tasksByNode(results: readonly { readonly data: { readonly items: readonly Task[] } | undefined }[]): ReadonlyMap<string, Task> {
  return new Map(results.flatMap((result) => (result.data?.items ?? []).map((task) => [task.node, task] as const)));
}

function Chart({ timeline, tasks }: { readonly timeline: Timeline; readonly tasks: ReadonlyMap<string, Task> }) {
  const start = Date.parse(timeline.since);
  const whole = Math.max(1, Date.parse(timeline.until) - start);
  const rows = timeline.nodes.filter((node) => node.type !== "start" && node.type !== "end");
  const part = (moment: number) => Math.min(100, Math.max(0, (100 * (moment - start)) / whole));
  const busiest = Math.max(1, ...rows.flatMap((row) => row.buckets.map(([, ended = 0]) => ended)));
  return (
    <section className="panel" aria-label="Timeline">
      <p className="quiet">
        {absolute(timeline.since)} – {absolute(timeline.until)} ({duration(whole / 1000)}). Light: the node was open. Dark: tasks ended then; red: some of
        them failed. Grey: the task waited for a worker. Amber: attempts that were tried again.
      </p>
      <div className="gantt">
        <span />
        <div className="gantt-axis" aria-hidden="true">
          {Array.from({ length: MARKS }, (_, index) => (
            <span key={index}>{clock(new Date(start + (whole * index) / MARKS).toISOString())}</span>
          ))}
        </div>
        {rows.map((row) => (
          <GanttRow key={row.node} row={row} task={tasks.get(row.node)} timeline={timeline} part={part} busiest={busiest} />
        ))}
      </div>
    </section>
  );
}

interface RowProps {
  readonly row: Row;
  readonly task: Task | undefined;
  readonly timeline: Timeline;
  readonly part: (moment: number) => number;
  readonly busiest: number;
}

function GanttRow({ row, task, timeline, part, busiest }: RowProps) {
  const begin = row.started_at === null ? null : Date.parse(row.started_at);
  const end = row.finished_at === null ? Date.parse(timeline.until) : Date.parse(row.finished_at);
  const width = 100 / BUCKETS;
  const ran = task?.started_at ? Math.min(end, Math.max(begin ?? end, Date.parse(task.started_at))) : begin;
  const before = (task?.attempt ?? 1) > 1 ? "partial" : "waiting";
  const words =
    begin === null
      ? `${row.node} has not begun`
      : `${row.node}: ${row.status}, ${duration((end - begin) / 1000)}, from ${clock(row.started_at ?? "")}${attemptWords(task)}`;
  return (
    <>
      <span className="gantt-name" title={row.node}>
        {row.node}
      </span>
      <div className="gantt-track" role="img" aria-label={words} title={words}>
        {begin === null || ran === null ? null : (
          <>
            {ran > begin ? (
              <span className={`gantt-span before tone-${before}`} style={{ left: `${part(begin)}%`, width: `${part(ran) - part(begin)}%` }} />
            ) : null}
            <span
              className={`gantt-span tone-${lookOf(row.status).tone}`}
              style={{ left: `${part(ran)}%`, width: `${Math.max(0.3, part(end) - part(ran))}%` }}
            />
          </>
        )}
        {row.buckets.map(([bucket = 0, ended = 0, failed = 0]) => (
          <span
            key={bucket}
            className={`gantt-bucket tone-${failed > 0 ? "failed" : "completed"}`}
            style={{ left: `${bucket * width}%`, width: `${width}%`, height: `${Math.max(15, 100 * Math.sqrt(ended / busiest))}%` }}
            title={`${ended} ended${failed > 0 ? `, ${failed} failed` : ""}`}
          />
        ))}
      </div>
    </>
  );
}

function attemptWords(task: Task | undefined): string {
  return task !== undefined && task.attempt > 1 ? `, ${task.attempt} attempts` : "";
}
