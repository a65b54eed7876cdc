/** The history of a job, line by line. New lines come by themselves. */

import { useEffect, useState } from "react";

import type { Schemas } from "../../api/client";
import { read } from "../../api/hooks";
import { useAddressQuery } from "../../address";
import { Failed } from "../../components/states";
import { DataTable, type Column } from "../../components/data_table";
import { When } from "../../components/time";
import { counted } from "../../words/numbers";
import { placeWords } from "./banner";
import type { Job } from "./job";

type Event = Schemas["Event"];
const PAGE = 1000;

const COLUMNS: readonly Column<Event>[] = [
  { name: "seq", title: "#", width: "4rem", isNumber: true, cell: (event) => event.seq },
  { name: "at", title: "When", width: "6rem", cell: (event) => <When at={event.at} /> },
  { name: "event", title: "Event", width: "minmax(9rem, 14rem)", cell: (event) => event.event.replaceAll("_", " ") },
  {
    name: "place",
    title: "Where",
    width: "minmax(5rem, 1fr)",
    cell: (event) => (event.node === null ? "" : placeWords(event.node, event.index)) + (event.attempt === null ? "" : `, attempt ${event.attempt}`),
  },
  {
    name: "data",
    title: "Details",
    width: "minmax(6rem, 2fr)",
    isExtra: true,
    cell: (event) => <span title={JSON.stringify(event.data, null, 2)}>{detailWords(event.data)}</span>,
  },
];

export function Events({ job }: { readonly job: Job }) {
  const query = useAddressQuery();
  const node = query.get("node");
  const text = query.get("event");
  // Another node is another list: it is read from its beginning.
  return <List key={`${job.job_id} ${node}`} job={job} node={node} text={text} onChange={query.set} />;
}

interface ListProps {
  readonly job: Job;
  readonly node: string;
  readonly text: string;
  readonly onChange: (changes: Readonly<Record<string, string>>) => void;
}

function List({ job, node, text, onChange }: ListProps) {
  const [events, setEvents] = useState<readonly Event[]>([]);
  const [error, setError] = useState<unknown>(null);
  // The job is read again when something happens to it; then what is new is read, too.
  useEffect(() => {
    const ended = new AbortController();
    async function follow(): Promise<void> {
      let cursor = events.at(-1)?.seq ?? 0;
      for (;;) {
        const page = await read(
          "/api/v1/jobs/{job_id}/events",
          { path: { job_id: job.job_id }, query: { cursor, limit: PAGE, ...(node === "" ? {} : { node }) } },
          ended.signal,
        );
        const found = page.items;
        if (ended.signal.aborted) return;
        const last = found.at(-1);
        if (last === undefined) return;
        const from = cursor;
        setEvents((before) => [...before.filter((event) => event.seq <= from), ...found]);
        cursor = last.seq;
        if (found.length < PAGE) return;
      }
    }
    follow().then(
      () => setError(null),
      (problem: unknown) => {
        if (!ended.signal.aborted) setError(problem);
      },
    );
    return () => ended.abort();
    // eslint-disable-next-line react-hooks/exhaustive-deps -- what is already there is where it goes on, no reason to read
  }, [job, node]);
  const wanted = text === "" ? events : events.filter((event) => event.event.includes(text.replaceAll(" ", "_")));
  const shown = [...wanted].reverse();
  return (
    <>
      <form className="filters" onSubmit={(event) => event.preventDefault()}>
        <label>
          Node
          <select value={node} onChange={(event) => onChange({ node: event.target.value })}>
            <option value="">all</option>
            {job.nodes.map((one) => (
              <option key={one.node}>{one.node}</option>
            ))}
          </select>
        </label>
        <label>
          Event
          <input value={text} placeholder="failed" onChange={(event) => onChange({ event: event.target.value })} />
        </label>
        <span className="quiet">{counted(shown.length, "event")}, the newest first</span>
      </form>
      {error ? <Failed error={error} /> : null}
      <DataTable label="events" rows={shown} columns={COLUMNS} idOf={(event) => String(event.seq)} />
    </>
  );
}

function detailWords(data: Event["data"]): string {
  return Object.entries(data ?? {})
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : String(value)}`)
    .join(" · ");
}
