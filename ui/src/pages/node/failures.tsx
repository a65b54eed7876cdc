/** The failures of a node, those that are alike together: one decision for each group instead of one for each item. */

import { useRead } from "../../api/hooks";
import { Shown } from "../../components/states";
import { When } from "../../components/time";
import { VerbButton } from "../../verbs/verb_button";
import { count } from "../../words/numbers";
import { Link } from "wouter";
import { nodeAddress } from "../job/banner";
import type { Job } from "../job/job";

const EXAMPLES = 3;

export function Failures({ job, node }: { readonly job: Job; readonly node: string }) {
  const groups = useRead("/api/v1/jobs/{job_id}/nodes/{node}/failures", { path: { job_id: job.job_id, node } });
  return (
    <section tabIndex={0} className="panel scroll-x" aria-labelledby="failures">
      <h2 id="failures">What failed, by what it has in common</h2>
      <Shown of={groups}>
        {(found) => (
          <table className="plain-table">
            <thead>
              <tr>
                <th className="number">items</th>
                <th>why</th>
                <th>examples</th>
                <th>first</th>
                <th>last</th>
                <th />
              </tr>
            </thead>
            <tbody>
              {found.items.map((group) => (
                <tr key={`${group.code} ${group.fingerprint}`}>
                  <td className="number">{count(group.number)}</td>
                  <td className="wrap">
                    <strong>{group.code}</strong> {group.message}
                  </td>
                  <td>
                    {group.items.slice(0, EXAMPLES).map((index) => (
                      <Link key={index} href={nodeAddress(job, node, index)} className="spaced">
                        {count(index)}
                      </Link>
                    ))}
                  </td>
                  <td>
                    <When at={group.first_at} />
                  </td>
                  <td>
                    <When at={group.last_at} />
                  </td>
                  <td>
                    {group.fingerprint === null ? null : (
                      <VerbButton jobId={job.job_id} verb="clear" args={{ node, fingerprint: group.fingerprint }}>
                        Retry these {count(group.number)} …
                      </VerbButton>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </Shown>
    </section>
  );
}
