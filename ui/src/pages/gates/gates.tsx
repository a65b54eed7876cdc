/** What holds work back: breakers, limits and pauses. */

import { useState } from "react";

import { client, type Schemas } from "../../api/client";
import { sent, useRead } from "../../api/hooks";
import { isInstallationAdmin, useMay, useSession } from "../../api/session";
import { ChangeButton } from "../../components/change_dialog";
import { commandLine } from "../../components/command";
import { ListPage, listOf } from "../../components/list_page";
import { When } from "../../components/time";
import { count, counted } from "../../words/numbers";

type Breaker = Schemas["Breaker"];
type Limit = Schemas["Limit"];
const OFTEN_MS = 5_000;

const TONES: Readonly<Record<string, string>> = { closed: "completed", open: "failed", half_open: "partial", probing: "partial" };

export function Gates() {
  return (
    <div className="stack">
      <h1>Breakers and limits</h1>
      <Breakers />
      <Limits />
      <Pauses />
    </div>
  );
}

function Breakers() {
  const breakers = useRead("/api/v1/breakers", {}, { every: OFTEN_MS });
  const mayOperate = useMay("operate");
  return (
    <ListPage
      title="Breakers"
      level={2}
      found={listOf(breakers)}
      idOf={(breaker) => breaker.name}
      empty={{ title: "No workflow has declared a breaker.", text: "A breaker holds tasks back while a dependency is down, so that no job burns its retries." }}
      columns={[
        { title: "breaker", cell: (one) => <strong>{one.name}</strong> },
        {
          title: "state",
          cell: (one) => (
            <span className={`badge tone-${TONES[one.state] ?? "waiting"}`}>
              <span aria-hidden="true">{one.state === "closed" ? "✓" : "‖"}</span> {one.state.replaceAll("_", " ")}
            </span>
          ),
        },
        { title: "since", cell: (one) => <When at={one.since} /> },
        { title: "next probe", cell: (one) => <When at={one.until} /> },
        { title: "failed calls", isNumber: true, cell: (one) => `${count(one.failed)} of ${count(one.calls)}` },
        { title: "waiting", isNumber: true, cell: (one) => count(one.waiting) },
        { title: "running", isNumber: true, cell: (one) => count(one.running) },
        { title: "why", cell: (one) => [one.held_by === null ? null : `held open by ${one.held_by}`, one.reason].filter(Boolean).join(": ") },
        { title: "", cell: (one) => (mayOperate ? <BreakerActions breaker={one} /> : null) },
      ]}
    />
  );
}

function BreakerActions({ breaker }: { readonly breaker: Breaker }) {
  const change = (verb: "open" | "close" | "reset") => (reason: string) =>
    sent(client.POST(`/api/v1/breakers/{name}/${verb}`, { params: { path: { name: breaker.name } }, body: { reason } }));
  const command = (verb: string) => (reason: string) => commandLine("breakers", verb, breaker.name, ...(reason ? ["--reason", reason] : []));
  return (
    <span className="row">
      {breaker.state === "closed" ? (
        <ChangeButton label="Open …" title={`Hold ${breaker.name} open`} kind="danger" hasReason command={command("open")} send={change("open")}>
          <p>The tasks behind it wait until a person closes it: {counted(breaker.running, "task")} running, none new begins.</p>
        </ChangeButton>
      ) : (
        <ChangeButton label="Close …" title={`Close ${breaker.name}`} hasReason command={command("close")} send={change("close")}>
          <p>{counted(breaker.waiting, "task")} behind it continue.</p>
        </ChangeButton>
      )}
      <ChangeButton label="Reset …" title={`Reset ${breaker.name}`} hasReason command={command("reset")} send={change("reset")}>
        <p>It closes, and forgets the calls that it has counted.</p>
      </ChangeButton>
    </span>
  );
}

function Limits() {
  const limits = useRead("/api/v1/limits", {}, { every: OFTEN_MS });
  const mayOperate = useMay("operate");
  return (
    <ListPage
      title="Limits"
      level={2}
      actions={mayOperate ? <SetLimit /> : null}
      found={listOf(limits)}
      idOf={(limit) => `${limit.tenant ?? ""} ${limit.name}`}
      empty={{ title: "Nothing is limited.", command: "holdfast limits set queue:heavy --concurrency 8" }}
      columns={[
        { title: "limit", cell: (one) => <strong>{one.name}</strong> },
        { title: "tenant", cell: (one) => one.tenant ?? "all" },
        { title: "allows", cell: allows },
        { title: "running", isNumber: true, cell: (one) => count(one.running) },
        { title: "waiting", isNumber: true, cell: (one) => count(one.waiting) },
        { title: "set by", cell: (one) => one.actor ?? "its workflow" },
        { title: "changed", cell: (one) => <When at={one.changed_at} /> },
        { title: "", cell: (one) => (mayOperate ? <LimitActions limit={one} /> : null) },
      ]}
    />
  );
}

function allows(limit: Limit): string {
  const parts = [
    limit.concurrency === null ? null : `${count(limit.concurrency)} at once`,
    limit.rate === null ? null : `${count(limit.rate.limit)} in ${limit.rate.per_seconds} s`,
    limit.backlog === null ? null : `${counted(limit.backlog, "open job")}${limit.open_jobs === null ? "" : ` (now ${count(limit.open_jobs)})`}`,
    limit.paused === null ? null : `paused by ${limit.paused.by}`,
  ];
  return parts.filter(Boolean).join(", ");
}

function LimitActions({ limit }: { readonly limit: Limit }) {
  const path = { name: limit.name };
  return (
    <span className="row">
      <SetLimit name={limit.name} concurrency={limit.concurrency} />
      {limit.actor === null ? null : (
        <ChangeButton
          label="Remove …"
          title={`Remove the limit ${limit.name}`}
          kind="danger"
          command={() => commandLine("limits", "drop", limit.name)}
          send={() => sent(client.DELETE("/api/v1/limits/{name}", { params: { path } }))}
        >
          <p>{counted(limit.waiting, "waiting task")} may begin as soon as a worker is free.</p>
        </ChangeButton>
      )}
    </span>
  );
}

function SetLimit({ name = "", concurrency = null }: { readonly name?: string; readonly concurrency?: number | null }) {
  const [typed, setTyped] = useState(name);
  const [number, setNumber] = useState(String(concurrency ?? ""));
  const wanted = typed.trim();
  return (
    <ChangeButton
      label={name === "" ? "Set a limit …" : "Change …"}
      title={name === "" ? "Set a limit" : `Change ${name}`}
      isReady={wanted !== "" && Number(number) > 0}
      command={() => commandLine("limits", "set", wanted || "NAME", "--concurrency", number || "N")}
      send={() => sent(client.PUT("/api/v1/limits/{name}", { params: { path: { name: wanted } }, body: { concurrency: Number(number) } }))}
    >
      {name === "" ? (
        <label className="field">
          <span>What is limited</span>
          <input value={typed} onChange={(event) => setTyped(event.target.value)} placeholder="queue:heavy, tenant, node:WORKFLOW.NODE, key:KEY" required />
        </label>
      ) : null}
      <label className="field">
        <span>Tasks at once</span>
        <input type="number" min={1} value={number} onChange={(event) => setNumber(event.target.value)} required />
      </label>
    </ChangeButton>
  );
}

function Pauses() {
  const pauses = useRead("/api/v1/pauses", {}, { every: OFTEN_MS });
  const mayOperate = useMay("operate");
  return (
    <ListPage
      title="Pauses"
      level={2}
      actions={mayOperate ? <MakePause /> : null}
      found={listOf(pauses)}
      idOf={(pause) => pause.id}
      empty={{ title: "Nothing is paused." }}
      columns={[
        { title: "what", cell: (one) => <strong>{one.queue === null ? `jobs of ${one.workflow_id ?? "all workflows"}` : `queue ${one.queue}`}</strong> },
        { title: "by", cell: (one) => one.by.join(", ") },
        { title: "since", cell: (one) => <When at={one.since} /> },
        { title: "why", cell: (one) => one.reason ?? "" },
        { title: "waiting", isNumber: true, cell: (one) => (one.queue === null ? counted(one.count, "job") : counted(one.count, "task")) },
        {
          title: "",
          cell: (one) =>
            mayOperate ? (
              <ChangeButton
                label="Let go on …"
                title="Let tasks begin again"
                hasReason
                command={() => commandLine("unpause", ...(one.queue === null ? ["--workflow", one.workflow_id] : ["--queue", one.queue]))}
                send={(reason) => sent(client.DELETE("/api/v1/pauses/{pause_id}", { params: { path: { pause_id: one.id }, query: { reason, wait: 5 } } }))}
              />
            ) : null,
        },
      ]}
    />
  );
}

function MakePause() {
  const isInstallation = isInstallationAdmin(useSession());
  const [kind, setKind] = useState<"workflow" | "queue" | "all">("workflow");
  const [name, setName] = useState("");
  const wanted = name.trim();
  const flags = kind === "all" ? ["--all"] : [`--${kind}`, wanted || "NAME"];
  return (
    <ChangeButton
      label="Pause …"
      title="Let nothing new begin"
      hasReason
      isReady={kind === "all" || wanted !== ""}
      command={() => commandLine("pause", ...flags)}
      send={(reason) =>
        sent(client.POST("/api/v1/pauses", { params: { query: { wait: 5 } }, body: { reason, ...(kind === "all" ? { all: true } : { [kind]: wanted }) } }))
      }
    >
      <p>What runs continues to its end.</p>
      <label className="field">
        <span>What</span>
        <select value={kind} onChange={(event) => setKind(event.target.value as typeof kind)}>
          <option value="workflow">the open jobs of a workflow</option>
          {isInstallation ? <option value="queue">a queue, for all tenants</option> : null}
          <option value="all">all open jobs</option>
        </select>
      </label>
      {kind === "all" ? null : (
        <label className="field">
          <span>{kind === "queue" ? "Queue" : "Workflow"}</span>
          <input value={name} onChange={(event) => setName(event.target.value)} required />
        </label>
      )}
    </ChangeButton>
  );
}
