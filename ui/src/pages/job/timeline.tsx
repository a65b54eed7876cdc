/** When the nodes ran: one row for each, waiting and running told apart, and where tasks ended, as a density. */

import { useRead } from "../../api/hooks";
import { Shown } from "../../components/states";
import { lookOf } from "../../words/status";
import { duration } from "../../words/numbers";
import { absolute, clock } from "../../words/times";
import type { Schemas } from "../../api/client";
import type { Job } from "./job";

type Timeline = Schemas["Timeline"];
type Row = Timeline["nodes"][number];
const BUCKETS = 120;
const MARKS = 5;

export function Timeline({ job }: { readonly job: Job }) {
  const timeline = useRead("/api/v1/jobs/{job_id}/timeline", { path: { job_id: job.job_id }, query: { buckets: BUCKETS } });
  return <Shown of={timeline}>{(found) => <Chart timeline={found} />}</Shown>;
}

function Chart({ timeline }: { readonly timeline: Timeline }) {
  const start = Date.parse(timeline.since);
  const whole = Math.max(1, Date.parse(timeline.until) - start);
  const rows = timeline.nodes.filter((node) => node.type !== "start" && node.type !== "end");
  const part = (moment: number) => Math.min(100, Math.max(0, (100 * (moment - start)) / whole));
  const busiest = Math.max(1, ...rows.flatMap((row) => row.buckets.map(([, ended = 0]) => ended)));
  return (
    <section className="panel" aria-label="Timeline">
      <p className="quiet">
        {absolute(timeline.since)} – {absolute(timeline.until)} ({duration(whole / 1000)}). Light: the node was open. Dark: tasks ended then; red: some of
        them failed.
      </p>
      <div className="gantt">
        <span />
        <div className="gantt-axis" aria-hidden="true">
          {Array.from({ length: MARKS }, (_, index) => (
            <span key={index}>{clock(new Date(start + (whole * index) / MARKS).toISOString())}</span>
          ))}
        </div>
        {rows.map((row) => (
          <GanttRow key={row.node} row={row} timeline={timeline} part={part} busiest={busiest} />
        ))}
      </div>
    </section>
  );
}

interface RowProps {
  readonly row: Row;
  readonly timeline: Timeline;
  readonly part: (moment: number) => number;
  readonly busiest: number;
}

function GanttRow({ row, timeline, part, busiest }: RowProps) {
  const begin = row.started_at === null ? null : Date.parse(row.started_at);
  const end = row.finished_at === null ? Date.parse(timeline.until) : Date.parse(row.finished_at);
  const width = 100 / BUCKETS;
  const words =
    begin === null
      ? `${row.node} has not begun`
      : `${row.node}: ${row.status}, ${duration((end - begin) / 1000)}, from ${clock(row.started_at ?? "")}`;
  return (
    <>
      <span className="gantt-name" title={row.node}>
        {row.node}
      </span>
      <div className="gantt-track" role="img" aria-label={words} title={words}>
        {begin === null ? null : (
          <span
            className={`gantt-span tone-${lookOf(row.status).tone}`}
            style={{ left: `${part(begin)}%`, width: `${Math.max(0.3, part(end) - part(begin))}%` }}
          />
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
