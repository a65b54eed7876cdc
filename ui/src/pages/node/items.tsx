/** The items of a fan-out: all of them, however many there are. Only what is in view is read and drawn. */

import { useQueries } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useMemo, useRef, useState } from "react";
import { useLocation } from "wouter";

import { read, useRead } from "../../api/hooks";
import type { Schemas } from "../../api/client";
import { useAddressQuery } from "../../address";
import { Shown } from "../../components/states";
import { StatusBadge } from "../../components/status";
import { Lasting } from "../../components/time";
import { useKeys } from "../../keys";
import { count } from "../../words/numbers";
import { nodeAddress } from "../job/banner";
import type { Job } from "../job/job";
import { MapStrip } from "./map_strip";
import { only, orderOf, type Order, type Runs } from "./order";

type Task = Schemas["Task"];
const PAGE = 100;
const ROW = 34;

export function Items({ job, node }: { readonly job: Job; readonly node: string }) {
  const map = useRead("/api/v1/jobs/{job_id}/nodes/{node}/map", { path: { job_id: job.job_id, node } });
  return (
    <Shown of={map} rows={8}>
      {(found) => <List job={job} node={node} runs={found.runs as unknown as Runs} counts={found.counts} total={found.items ?? 0} />}
    </Shown>
  );
}

interface ListProps {
  readonly job: Job;
  readonly node: string;
  readonly runs: Runs;
  readonly counts: Readonly<Record<string, number>>;
  readonly total: number;
}

function List({ job, node, runs, counts, total }: ListProps) {
  const query = useAddressQuery();
  const [, navigate] = useLocation();
  const wanted = query.get("status");
  const order = useMemo(() => (wanted === "" ? orderOf(runs, "failed") : wanted === "by index" ? orderOf(runs, null) : only(runs, wanted)), [runs, wanted]);
  const box = useRef<HTMLDivElement>(null);
  const [cursor, setCursor] = useState(-1);
  // eslint-disable-next-line react-hooks/incompatible-library -- the list is measured again at each scroll, on purpose
  const virtual = useVirtualizer({
    count: order.rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW,
    overscan: 10,
  });
  const shown = virtual.getVirtualItems();
  const tasks = useTasks(job, node, order, wanted, shown.at(0)?.index ?? 0, shown.at(-1)?.index ?? 0);
  function jump(index: number): void {
    const row = order.rows.indexOf(index);
    if (row < 0) return;
    setCursor(row);
    virtual.scrollToIndex(row, { align: "center" });
  }
  function move(step: number): void {
    if (order.rows.length === 0) return;
    const next = Math.min(order.rows.length - 1, Math.max(0, cursor + step));
    setCursor(next);
    virtual.scrollToIndex(next);
  }
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    Enter: () => {
      const index = order.rows[cursor];
      if (index !== undefined) navigate(nodeAddress(job, node, index));
    },
  });
  return (
    <section className="panel" aria-labelledby="items">
      <h2 id="items">{count(total)} items</h2>
      <MapStrip runs={runs} total={total} onJump={jump} />
      <form className="filters items-filters" onSubmit={(event) => event.preventDefault()}>
        <fieldset className="chips" aria-label="Order and status">
          {[["", "failed first"], ["by index", "by index"], ...Object.entries(counts).map(([status, number]) => [status, `${status} ${count(number)}`])].map(
            ([value = "", label = ""]) => (
              <button key={value} type="button" className="chip" aria-pressed={wanted === value} onClick={() => query.set({ status: value }, true)}>
                {label}
              </button>
            ),
          )}
        </fieldset>
        <label>
          Jump to item
          <input
            type="number"
            min={0}
            max={total - 1}
            onKeyDown={(event) => {
              if (event.key === "Enter") jump(event.currentTarget.valueAsNumber);
            }}
          />
        </label>
      </form>
      <div className="table items" role="table" aria-label="items" aria-rowcount={order.rows.length + 1}>
        <div className="table-row table-head" role="row">
          {["Item", "Status", "Attempts", "Took", "Why"].map((title) => (
            <span key={title} role="columnheader" className={title === "Took" ? "cell extra" : "cell"}>
              {title}
            </span>
          ))}
        </div>
        <div ref={box} className="table-body" role="rowgroup" tabIndex={0} aria-label="Rows of items">
          <div role="presentation" className="table-space" style={{ height: virtual.getTotalSize() }}>
            {shown.map((item) => {
              const index = order.rows[item.index] ?? 0;
              const task = tasks.get(index);
              return (
                <div
                  key={item.key}
                  role="row"
                  aria-rowindex={item.index + 2}
                  className={`table-row link${item.index === cursor ? " cursor" : ""}`}
                  style={{ height: item.size, transform: `translateY(${item.start}px)` }}
                  onClick={() => navigate(nodeAddress(job, node, index))}
                >
                  <span role="cell" className="cell number">
                    {count(index)}
                  </span>
                  <span role="cell" className="cell">
                    {task === undefined ? <span className="quiet">…</span> : <StatusBadge status={task.status} note={markOf(task)} />}
                  </span>
                  <span role="cell" className="cell">
                    {task === undefined ? "" : task.attempt > 1 ? <span className="held">{task.attempt} attempts</span> : task.attempt}
                  </span>
                  <span role="cell" className="cell extra">
                    {task === undefined ? "" : <Lasting from={task.started_at} to={task.finished_at} />}
                  </span>
                  <span role="cell" className="cell" title={task?.error?.message ?? ""}>
                    {task?.error ? `${task.error.code ?? ""}: ${task.error.message ?? ""}` : ""}
                  </span>
                </div>
              );
            })}
          </div>
        </div>
      </div>
    </section>
  );
}

function markOf(task: Task): string | null {
  if (task.gone) return "gone";
  if (task.undo_error) return "not undone";
  return task.corrected ? "corrected" : null;
}

/** The tasks of the rows in view, read in pages. Rows that come first are read by their status, the others by index. */
function useTasks(job: Job, node: string, order: Order, wanted: string, from: number, to: number): ReadonlyMap<number, Task> {
  const first = wanted === "" ? "failed" : wanted === "by index" ? null : wanted;
  const pages = new Map<string, { readonly status?: string; readonly cursor?: string }>();
  for (let row = from; row <= Math.min(to, order.rows.length - 1); row += 1) {
    if (first !== null && row < order.first) {
      const begin = order.rows[row - (row % PAGE)] ?? 0;
      pages.set(`${first} ${begin}`, { status: first, ...after(begin) });
    } else {
      const index = order.rows[row] ?? 0;
      const begin = index - (index % PAGE);
      pages.set(String(begin), after(begin));
    }
  }
  const combine = useCallback(
    (results: readonly { readonly data: { readonly items: readonly Task[] } | undefined }[]) =>
      new Map(results.flatMap((result) => (result.data?.items ?? []).map((task) => [task.index ?? -1, task] as const))),
    [],
  );
  return useQueries({
    queries: [...pages.values()].map((query) => {
      const params = { path: { job_id: job.job_id, node }, query: { ...query, limit: PAGE } };
      return {
        queryKey: ["/api/v1/jobs/{job_id}/nodes/{node}/tasks", params],
        queryFn: ({ signal }: { readonly signal: AbortSignal }) => read("/api/v1/jobs/{job_id}/nodes/{node}/tasks", params, signal),
        staleTime: 5_000,
      };
    }),
    combine,
  });
}

/** The cursor before an index. */
function after(index: number): { readonly cursor?: string } {
  return index === 0 ? {} : { cursor: String(index - 1) };
}
