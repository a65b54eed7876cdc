/** What starts by the clock. */

import { useState } from "react";
import { Link } from "wouter";

import { client, type Schemas } from "../../api/client";
import { sent, useRead } from "../../api/hooks";
import { useMay } from "../../api/session";
import { ChangeButton } from "../../components/change_dialog";
import { commandLine } from "../../components/command";
import { ListPage, listOf } from "../../components/list_page";
import { StatusBadge } from "../../components/status";
import { When } from "../../components/time";
import { parsedJson } from "../../words/json";
import { duration } from "../../words/numbers";
import { absolute } from "../../words/times";

type Schedule = Schemas["Schedule"];

export function Schedules() {
  const schedules = useRead("/api/v1/schedules", {}, { every: 5_000 });
  const maySubmit = useMay("submit");
  return (
    <ListPage
      title="Schedules"
      actions={maySubmit ? <AddSchedule /> : null}
      found={listOf(schedules)}
      idOf={(one) => one.name}
      empty={{ title: "Nothing starts by the clock.", command: 'holdfast schedules add nightly WORKFLOW --cron "0 2 * * *"' }}
      columns={[
        { title: "schedule", cell: (one) => <strong>{one.name}</strong> },
        { title: "workflow", cell: (one) => <Link href={`/workflows/${encodeURIComponent(one.workflow_id)}`}>{one.workflow_id}</Link> },
        { title: "when", cell: timingOf },
        {
          title: "next runs",
          cell: (one) =>
            one.paused === null ? (
              <span title={one.next_runs.map(absolute).join("\n")}>
                <When at={one.next_runs[0]} />
              </span>
            ) : (
              <span className="held">
                ‖ paused by {one.paused.by}
                {one.paused.reason ? `: ${one.paused.reason}` : ""}
              </span>
            ),
        },
        {
          title: "last tick",
          cell: (one) => (
            <>
              <When at={one.last_tick} /> {one.last_answer ?? ""}{" "}
              {one.last_job === null ? null : (
                <Link href={`/jobs/${one.last_job}`}>{one.last_job_status === null ? "pruned" : <StatusBadge status={one.last_job_status} />}</Link>
              )}
              {one.problem === null ? null : <div className="danger-text">{one.problem}</div>}
            </>
          ),
        },
        { title: "overlap, catch-up", cell: (one) => `${one.overlap}, ${one.catch_up}${one.waiting.length > 0 ? ` (${one.waiting.length} waiting)` : ""}` },
        { title: "", cell: (one) => (maySubmit ? <Actions schedule={one} /> : null) },
      ]}
    />
  );
}

function timingOf(one: Schedule) {
  return one.cron === null ? (
    `every ${duration(one.every_seconds ?? 0)}`
  ) : (
    <>
      <code>{one.cron}</code> {one.time_zone}
    </>
  );
}

function Actions({ schedule }: { readonly schedule: Schedule }) {
  const params = { path: { name: schedule.name } };
  const withReason = (verb: string) => (reason: string) => commandLine("schedules", verb, schedule.name, ...(reason ? ["--reason", reason] : []));
  return (
    <span className="row">
      <ChangeButton
        label="Run now …"
        title={`Run ${schedule.name} now`}
        command={() => commandLine("schedules", "trigger", schedule.name)}
        send={(reason) => sent<Schemas["Triggered"]>(client.POST("/api/v1/schedules/{name}/trigger", { params, body: { reason } }))}
        result={(answer) => {
          const made = answer as Schemas["Triggered"];
          return (
            <p role="status">
              {made.answer}. {made.job_id === null ? null : <Link href={`/jobs/${made.job_id}`}>Open the job</Link>}
            </p>
          );
        }}
      >
        <p>A tick like those of the clock; the next one is not moved.</p>
      </ChangeButton>
      {schedule.paused === null ? (
        <ChangeButton
          label="Pause …"
          title={`Pause ${schedule.name}`}
          hasReason
          command={withReason("pause")}
          send={(reason) => sent(client.POST("/api/v1/schedules/{name}/pause", { params, body: { reason } }))}
        />
      ) : (
        <ChangeButton
          label="Let go on …"
          title={`Let ${schedule.name} go on`}
          hasReason
          command={withReason("unpause")}
          send={(reason) => sent(client.POST("/api/v1/schedules/{name}/unpause", { params, body: { reason } }))}
        />
      )}
      <ChangeButton
        label="Remove …"
        title={`Remove ${schedule.name}`}
        kind="danger"
        command={() => commandLine("schedules", "remove", schedule.name)}
        send={() => sent(client.DELETE("/api/v1/schedules/{name}", { params }))}
      >
        <p>Its jobs stay.</p>
      </ChangeButton>
    </span>
  );
}

type Overlap = "skip" | "queue" | "replace";
const CATCH_UPS = ["none", "last", "all"] as const;

function AddSchedule() {
  const workflows = useRead("/api/v1/workflows", {});
  const [name, setName] = useState("");
  const [workflow, setWorkflow] = useState("");
  const [cron, setCron] = useState("0 2 * * *");
  const [zone, setZone] = useState(Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC");
  const [overlap, setOverlap] = useState<Overlap>("skip");
  const [catchUp, setCatchUp] = useState<(typeof CATCH_UPS)[number]>("last");
  const [inputs, setInputs] = useState("{}");
  const parsed = parsedJson(inputs);
  const chosen = workflow || (workflows.data?.items[0]?.workflow_id ?? "");
  return (
    <ChangeButton
      label="Add a schedule …"
      title="Add a schedule"
      kind="main-action"
      isReady={name.trim() !== "" && chosen !== "" && cron.trim() !== "" && parsed.isValid}
      command={() => commandLine("schedules", "add", name.trim() || "NAME", chosen || "WORKFLOW", "--cron", cron, "--time-zone", zone)}
      send={() =>
        sent(
          client.POST("/api/v1/schedules", {
            body: {
              name: name.trim(),
              workflow: chosen,
              cron: cron.trim(),
              time_zone: zone,
              overlap,
              catch_up: catchUp,
              inputs: (parsed.isValid ? parsed.value : {}) as Record<string, unknown>,
              reason: "",
            },
          }),
        )
      }
    >
      <label className="field">
        <span>Name</span>
        <input value={name} onChange={(event) => setName(event.target.value)} required />
      </label>
      <label className="field">
        <span>Workflow</span>
        <select value={chosen} onChange={(event) => setWorkflow(event.target.value)}>
          {workflows.data?.items.map((one) => (
            <option key={one.workflow_id}>{one.workflow_id}</option>
          ))}
        </select>
      </label>
      <label className="field">
        <span>Minute, hour, day, month, day of the week</span>
        <input value={cron} onChange={(event) => setCron(event.target.value)} required />
      </label>
      <label className="field">
        <span>Time zone</span>
        <input value={zone} onChange={(event) => setZone(event.target.value)} required />
      </label>
      <label className="field">
        <span>While the job before it has not ended</span>
        <select value={overlap} onChange={(event) => setOverlap(event.target.value as typeof overlap)}>
          <option value="skip">leave the tick out</option>
          <option value="queue">wait for its end</option>
          <option value="replace">cancel it, and start</option>
        </select>
      </label>
      <label className="field">
        <span>Ticks that were missed</span>
        <select value={catchUp} onChange={(event) => setCatchUp(event.target.value as typeof catchUp)}>
          {CATCH_UPS.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
      </label>
      <label className="field">
        <span>Inputs, as JSON</span>
        <textarea rows={4} value={inputs} onChange={(event) => setInputs(event.target.value)} />
      </label>
      {parsed.isValid ? null : <p role="status">{parsed.problem}</p>}
    </ChangeButton>
  );
}
