/** One job: how it stands, what a person can do, and its parts. */

import { lazy, type ReactNode } from "react";
import { Link, useParams } from "wouter";

import type { Schemas } from "../../api/client";
import { useRead } from "../../api/hooks";
import { useLiveJob } from "../../api/live";
import { Copy } from "../../components/command";
import { Shown } from "../../components/states";
import { HeldMark, StateBar, StatusBadge } from "../../components/status";
import { Tabs } from "../../components/tabs";
import { Lasting, When } from "../../components/time";
import { counted } from "../../words/numbers";
import { missingWords } from "../../words/missing";
import { JobActions } from "./actions";
import { Banner } from "./banner";

export type Job = Schemas["Job"];

const Graph = lazy(() => import("./graph").then((part) => ({ default: part.Graph })));
const Timeline = lazy(() => import("./timeline").then((part) => ({ default: part.Timeline })));
const OutcomePart = lazy(() => import("./outcome").then((part) => ({ default: part.OutcomePart })));
const Events = lazy(() => import("./events").then((part) => ({ default: part.Events })));
const Definition = lazy(() => import("./definition").then((part) => ({ default: part.Definition })));
const History = lazy(() => import("./history").then((part) => ({ default: part.History })));
const NodePage = lazy(() => import("../node/node").then((page) => ({ default: page.NodePage })));
const TaskPage = lazy(() => import("../task/task").then((page) => ({ default: page.TaskPage })));

const TABS = [
  { name: "graph", label: "Graph" },
  { name: "timeline", label: "Timeline" },
  { name: "outcome", label: "Outcome" },
  { name: "events", label: "Events" },
  { name: "definition", label: "Definition" },
  { name: "history", label: "History" },
] as const;

export function JobPage() {
  const { job: jobId = "", "*": rest } = useParams<{ job: string; "*": string }>();
  const job = useRead("/api/v1/jobs/{job_id}", { path: { job_id: jobId } });
  useLiveJob(jobId, job.data?.generation);
  const [part = "", nodeName, item] = (rest ?? "").split("/").map(decodeURIComponent);
  return (
    <Shown of={job} rows={8}>
      {(found) => {
        if (part === "nodes" && nodeName !== undefined) {
          return (
            <>
              <Crumbs job={found} node={nodeName} item={item} />
              {item === undefined ? <NodePage job={found} name={nodeName} /> : <TaskPage job={found} node={nodeName} item={Number(item)} />}
            </>
          );
        }
        return (
          <>
            <Header job={found} />
            <Banner job={found} />
            <Tabs tabs={TABS} current={part === "" ? "graph" : part} base={`/jobs/${found.job_id}`} />
            {partOf(part, found)}
          </>
        );
      }}
    </Shown>
  );
}

function partOf(part: string, job: Job): ReactNode {
  switch (part) {
    case "timeline":
      return <Timeline job={job} />;
    case "outcome":
      return <OutcomePart job={job} />;
    case "events":
      return <Events job={job} />;
    case "definition":
      return <Definition job={job} />;
    case "history":
      return <History job={job} />;
    default:
      return <Graph job={job} />;
  }
}

function Crumbs({ job, node, item }: { readonly job: Job; readonly node: string; readonly item?: string | undefined }) {
  const base = `/jobs/${job.job_id}`;
  return (
    <nav className="crumbs" aria-label="Where this is">
      <Link href={base}>
        {job.workflow_id} <span className="mono">…{job.job_id.slice(-8)}</span>
      </Link>{" "}
      / {item === undefined ? <span>{node}</span> : <Link href={`${base}/nodes/${encodeURIComponent(node)}`}>{node}</Link>}
      {item === undefined ? null : <> / {item === "-1" ? "its task" : `item ${item}`}</>}
    </nav>
  );
}

function Header({ job }: { readonly job: Job }) {
  return (
    <header className="job-head">
      <div className="head">
        <h1>
          <Link href={`/workflows/${encodeURIComponent(job.workflow_id)}`}>{job.workflow_id}</Link>
        </h1>
        <StatusBadge status={job.status} note={job.reason ?? missingWords(job)} />
        <HeldMark held={job.held} />
        <span className="grow" />
        <JobActions job={job} />
      </div>
      <div className="job-bar">
        <StateBar counts={job.counts} />
        <span className="quiet">
          {job.counts.completed} of {counted(job.counts.total, "task")} completed
          {job.counts.failed > 0 ? `, ${job.counts.failed} failed` : ""}
        </span>
      </div>
      <dl className="job-facts">
        <Fact name="Job">
          <span className="mono">{job.job_id}</span> <Copy text={job.job_id} what="id" />
        </Fact>
        <Fact name="Submitted">
          <When at={job.created_at} />
        </Fact>
        <Fact name="Worked">
          <Lasting from={job.started_at} to={job.finished_at} />
        </Fact>
        <Fact name="Waited before">
          <Lasting from={job.created_at} to={job.started_at ?? job.finished_at} />
        </Fact>
        <Fact name="Version">
          {job.version}, run {job.run}, generation {job.generation}
        </Fact>
        <Fact name="Tenant">{job.tenant}</Fact>
        {job.owner === null ? null : (
          <Fact name="Owner">
            {job.owner.name ?? job.owner.id}
            {job.owner.alive ? "" : " (gone)"}
          </Fact>
        )}
        {Object.keys(job.labels).length === 0 ? null : (
          <Fact name="Labels">
            {Object.entries(job.labels).map(([name, value]) => (
              <Link key={name} href={`/jobs?label=${encodeURIComponent(`${name}=${value}`)}`} className="label">
                {name}={value}
              </Link>
            ))}
          </Fact>
        )}
        {job.correlation_id ? <Fact name="Correlation id">{job.correlation_id}</Fact> : null}
        {Object.entries(job.external_ids ?? {}).map(([name, value]) => (
          <Fact key={name} name={name}>
            {value}
          </Fact>
        ))}
        {job.acknowledged === null ? null : (
          <Fact name="Acknowledged">
            by {job.acknowledged.by}: {job.acknowledged.reason}
          </Fact>
        )}
      </dl>
    </header>
  );
}

function Fact({ name, children }: { readonly name: string; readonly children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
