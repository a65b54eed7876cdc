/** All jobs of the tenant, newest first, by every filter of the service. */

import { useMemo, useState } from "react";

import type { Schemas } from "../../api/client";
import { usePages } from "../../api/hooks";
import { useMay } from "../../api/session";
import { useAddressQuery, type AddressQuery } from "../../address";
import { DataTable, type Column } from "../../components/data_table";
import { Empty, Failed, Loading } from "../../components/states";
import { HeldMark, StateBar, StatusBadge } from "../../components/status";
import { Lasting, When } from "../../components/time";
import { JOB_STATUSES } from "../../words/status";
import { BulkDialog, type BulkVerb } from "../../verbs/bulk_dialog";
import { counted } from "../../words/numbers";
import { missingWords } from "../../words/missing";

type Summary = Schemas["JobSummary"];
const MOST_CHOSEN = 100;

const COLUMNS: readonly Column<Summary>[] = [
  {
    name: "status",
    title: "Status",
    width: "minmax(6.25rem, 13rem)",
    cell: (job) => (
      <>
        <StatusBadge status={job.status} note={missingWords(job)} /> <HeldMark held={job.held} />
      </>
    ),
  },
  { name: "workflow", title: "Workflow", width: "minmax(6rem, 1.2fr)", cell: (job) => job.workflow_id },
  { name: "id", title: "Job", width: "7rem", isExtra: true, cell: (job) => <span className="mono">…{job.job_id.slice(-8)}</span> },
  {
    name: "progress",
    title: "Progress",
    width: "minmax(3rem, 1fr)",
    cell: (job) => <StateBar counts={job.counts} />,
  },
  {
    name: "error",
    title: "Why",
    width: "minmax(6rem, 1.4fr)",
    isExtra: true,
    cell: (job) => <span title={job.error ?? ""}>{job.error ?? ""}</span>,
  },
  {
    name: "labels",
    title: "Labels",
    width: "minmax(4rem, 1fr)",
    isExtra: true,
    cell: (job) => (
      <span className="quiet">
        {Object.entries(job.labels)
          .map(([name, value]) => `${name}=${value}`)
          .join(" ")}
      </span>
    ),
  },
  { name: "duration", title: "Took", width: "6rem", isNumber: true, isExtra: true, cell: (job) => <Lasting from={job.started_at} to={job.finished_at} /> },
  { name: "created", title: "Submitted", width: "minmax(5.75rem, 6rem)", isNumber: true, cell: (job) => <When at={job.created_at} /> },
];

export function Jobs() {
  const query = useAddressQuery();
  const mayOperate = useMay("operate");
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const filters = useMemo(() => filtersOf(query), [query]);
  const jobs = usePages("/api/v1/jobs", { query: filters });
  function choose(id: string, isChosen: boolean): void {
    setChosen((before) => {
      const after = new Set(before);
      if (isChosen && after.size < MOST_CHOSEN) after.add(id);
      else after.delete(id);
      return after;
    });
  }
  return (
    <>
      <div className="head">
        <h1>Jobs</h1>
      </div>
      <Filters query={query} />
      {chosen.size > 0 ? <Chosen ids={[...chosen]} onClear={() => setChosen(new Set())} /> : null}
      {jobs.error && jobs.items.length === 0 ? (
        <Failed error={jobs.error} />
      ) : jobs.isLoading ? (
        <Loading rows={10} />
      ) : jobs.items.length === 0 ? (
        query.text === "" ? (
          <Empty title="There is no job yet." command="holdfast submit workflow.yaml" />
        ) : (
          <Empty title="No job is like this.">Change the filters, or remove them.</Empty>
        )
      ) : (
        <DataTable
          label="jobs"
          rows={jobs.items}
          columns={COLUMNS}
          idOf={(job) => job.job_id}
          linkOf={(job) => `/jobs/${job.job_id}`}
          chosen={chosen}
          onChoose={mayOperate ? choose : undefined}
          onEnd={jobs.more}
        />
      )}
    </>
  );
}

const BULK: readonly (readonly [BulkVerb, string])[] = [
  ["resume", "Resume"],
  ["acknowledge", "Acknowledge"],
  ["pause", "Pause"],
  ["unpause", "Let go on"],
  ["cancel", "Cancel"],
];

function Chosen({ ids, onClear }: { readonly ids: readonly string[]; readonly onClear: () => void }) {
  const [verb, setVerb] = useState<BulkVerb | null>(null);
  return (
    <div className="row chosen" role="region" aria-label="Chosen jobs">
      <strong>{counted(ids.length, "job")} chosen</strong>
      {ids.length >= MOST_CHOSEN ? <span className="quiet">(at most {MOST_CHOSEN})</span> : null}
      {BULK.map(([name, label]) => (
        <button key={name} type="button" className={name === "cancel" ? "button danger" : "button"} onClick={() => setVerb(name)}>
          {label} …
        </button>
      ))}
      <button type="button" className="plain" onClick={onClear}>
        Choose none
      </button>
      {verb === null ? null : <BulkDialog verb={verb} jobIds={ids} onClose={() => setVerb(null)} />}
    </div>
  );
}

function filtersOf(query: AddressQuery) {
  const text = (name: string) => query.get(name) || undefined;
  const moment = (name: string) => {
    const at = new Date(query.get(name));
    return Number.isNaN(at.getTime()) ? undefined : at.toISOString();
  };
  return {
    status: query.all("status").length > 0 ? [...query.all("status")] : undefined,
    workflow: text("workflow"),
    code: text("code"),
    fingerprint: text("fingerprint"),
    label: query.all("label").length > 0 ? [...query.all("label")] : undefined,
    correlation: text("correlation"),
    key: text("key"),
    text: text("text"),
    since: moment("since"),
    until: moment("until"),
    unacknowledged: query.get("unacknowledged") === "true" ? true : undefined,
  };
}

type TextFilter = readonly [name: string, label: string, example: string];

const OFTEN: readonly TextFilter[] = [
  ["text", "Text", "id, key, workflow …"],
  ["workflow", "Workflow", "its id"],
  ["label", "Label", "name=value"],
];
const SELDOM: readonly TextFilter[] = [
  ["code", "Code", "TIMEOUT"],
  ["correlation", "Correlation id", ""],
  ["key", "Key", ""],
  ["fingerprint", "Fingerprint", ""],
];
const MOMENTS = [
  ["since", "Submitted since"],
  ["until", "Submitted before"],
] as const;

function Filters({ query }: { readonly query: AddressQuery }) {
  return (
    // A filter that came with the address is shown in its field.
    <form className="filters" key={query.text} onSubmit={(event) => event.preventDefault()}>
      <fieldset className="chips" aria-label="Status">
        {JOB_STATUSES.map((status) => {
          const isOn = query.all("status").includes(status);
          return (
            <button
              key={status}
              type="button"
              className="chip"
              aria-pressed={isOn}
              onClick={() =>
                query.set({ status: isOn ? query.all("status").filter((one) => one !== status) : [...query.all("status"), status] }, true)
              }
            >
              {status}
            </button>
          );
        })}
        <button
          type="button"
          className="chip"
          aria-pressed={query.get("unacknowledged") === "true"}
          onClick={() => query.set({ unacknowledged: query.get("unacknowledged") === "true" ? "" : "true" }, true)}
        >
          not acknowledged
        </button>
      </fieldset>
      <TextFields fields={OFTEN} query={query} />
      <details className="more-filters" open={[...SELDOM, ...MOMENTS].some(([name]) => query.get(name) !== "")}>
        <summary>More filters</summary>
        <div className="filters">
          <TextFields fields={SELDOM} query={query} />
          {MOMENTS.map(([name, label]) => (
            <label key={name}>
              {label}
              <input
                type="datetime-local"
                defaultValue={query.get(name)}
                onBlur={(event) => {
                  if (event.target.value !== query.get(name)) query.set({ [name]: event.target.value }, true);
                }}
              />
            </label>
          ))}
        </div>
      </details>
      {query.text === "" ? null : (
        <button
          type="button"
          className="plain"
          onClick={() =>
            query.set(Object.fromEntries([...new URLSearchParams(query.text).keys()].map((name) => [name, ""])), true)
          }
        >
          Remove all filters
        </button>
      )}
    </form>
  );
}

function TextFields({ fields, query }: { readonly fields: readonly TextFilter[]; readonly query: AddressQuery }) {
  return fields.map(([name, label, example]) => (
    <label key={name}>
      {label}
      <input
        defaultValue={query.get(name)}
        placeholder={example}
        size={14}
        onBlur={(event) => {
          if (event.target.value !== query.get(name)) query.set({ [name]: event.target.value.trim() }, true);
        }}
        onKeyDown={(event) => {
          if (event.key === "Enter") query.set({ [name]: event.currentTarget.value.trim() }, true);
        }}
      />
    </label>
  ));
}
