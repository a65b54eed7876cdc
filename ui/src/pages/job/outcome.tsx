/** What the job is for, and how much of it there is. */

import { Link } from "wouter";

import { ROOT, type Schemas } from "../../api/client";
import { usePages } from "../../api/hooks";
import { JsonTree } from "../../components/json_tree";
import { StatusBadge } from "../../components/status";
import { When } from "../../components/time";
import { bytes, count } from "../../words/numbers";
import { nodeAddress, placeWords } from "./banner";
import type { Job } from "./job";

export function OutcomePart({ job }: { readonly job: Job }) {
  const { outcome } = job;
  const stages = Object.entries(outcome.stages);
  const deliverables = Object.entries(outcome.deliverables);
  return (
    <div className="stack">
      <Objectives title="Primary: without these the job has failed" objectives={outcome.primary} job={job} />
      <Objectives title="Secondary: without these the job is partial" objectives={outcome.secondary} job={job} />
      <Objectives title="Optional" objectives={outcome.optional} job={job} />
      {deliverables.length === 0 ? null : (
        <section tabIndex={0} className="panel scroll-x" aria-labelledby="deliverables">
          <h2 id="deliverables">Deliverables</h2>
          <table className="plain-table">
            <tbody>
              {deliverables.map(([name, one]) => (
                <tr key={name}>
                  <td>{name}</td>
                  <td className="number">{count(one.count)}</td>
                  <td>{one.usable ? "usable" : "nothing usable yet"}</td>
                  <td className="mono">{one.location}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
      <Artifacts job={job} />
      {stages.length === 0 ? null : (
        <section tabIndex={0} className="panel scroll-x" aria-labelledby="stages">
          <h2 id="stages">Stages that have completed</h2>
          <table className="plain-table">
            <thead>
              <tr>
                <th>stage</th>
                <th>node</th>
                <th className="number">tasks</th>
                <th className="number">of these completed</th>
                <th>when</th>
              </tr>
            </thead>
            <tbody>
              {stages.map(([number, stage]) => (
                <tr key={number}>
                  <td>{number}</td>
                  <td>
                    <Link href={nodeAddress(job, stage.node, null)}>{stage.node}</Link>
                  </td>
                  <td className="number">{count(stage.task_count)}</td>
                  <td className="number">{count(stage.success_count)}</td>
                  <td>
                    <When at={stage.completed_at} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
      <section className="panel" aria-labelledby="result">
        <h2 id="result">Result</h2>
        {job.result === null || job.result === undefined ? <p className="quiet">There is none.</p> : <JsonTree value={job.result} />}
      </section>
    </div>
  );
}

interface ObjectivesProps {
  readonly title: string;
  readonly objectives: readonly Schemas["Objective"][];
  readonly job: Job;
}

function Objectives({ title, objectives, job }: ObjectivesProps) {
  if (objectives.length === 0) return null;
  return (
    <section tabIndex={0} className="panel scroll-x">
      <h2>{title}</h2>
      <table className="plain-table">
        <tbody>
          {objectives.map((one) => (
            <tr key={one.node}>
              <td>
                <Link href={nodeAddress(job, one.node, null)}>{one.node}</Link>
                {one.description ? <span className="quiet"> {one.description}</span> : null}
              </td>
              <td>
                <StatusBadge status={one.status} />
              </td>
              <td>{one.details}</td>
              <td>{one.error === null ? "" : `${one.error.code ?? ""}: ${one.error.message ?? ""}`}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Artifacts({ job }: { readonly job: Job }) {
  const artifacts = usePages("/api/v1/jobs/{job_id}/artifacts", { path: { job_id: job.job_id } });
  if (artifacts.items.length === 0) return null;
  return (
    <section tabIndex={0} className="panel scroll-x" aria-labelledby="artifacts">
      <h2 id="artifacts">Files</h2>
      <table className="plain-table">
        <tbody>
          {artifacts.items.map((file) => {
            const query = new URLSearchParams({ node: file.node, item: String(file.index ?? -1) });
            return (
              <tr key={`${file.node} ${file.index} ${file.name}`}>
                <td>
                  <a href={`${ROOT}/api/v1/jobs/${job.job_id}/artifacts/${encodeURIComponent(file.name)}?${query.toString()}`} download>
                    {file.name}
                  </a>
                </td>
                <td>{placeWords(file.node, file.index)}</td>
                <td className="number">{bytes(file.bytes)}</td>
                <td>
                  <When at={file.published_at} />
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {artifacts.hasMore ? (
        <button type="button" className="button" onClick={artifacts.more}>
          Show more
        </button>
      ) : null}
    </section>
  );
}
