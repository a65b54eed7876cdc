/** One job. */

import { useParams } from "wouter";

import { useRead } from "../../api/hooks";
import { useLiveJob } from "../../api/live";
import { Shown } from "../../components/states";
import { StatusBadge } from "../../components/status";

export function JobPage() {
  const { job: jobId = "" } = useParams<{ job: string }>();
  const job = useRead("/api/v1/jobs/{job_id}", { path: { job_id: jobId } });
  useLiveJob(jobId, job.data?.generation);
  return (
    <Shown of={job}>
      {(found) => (
        <div className="head">
          <h1>{found.workflow_id}</h1>
          <StatusBadge status={found.status} />
        </div>
      )}
    </Shown>
  );
}
