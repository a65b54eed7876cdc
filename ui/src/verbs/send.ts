/** Verbs: a plan first, then exactly that plan. */

import { client, type Schemas } from "../api/client";
import { sent } from "../api/hooks";
import { commandLine } from "../components/command";
import { refresher } from "../api/live";

export type Plan = Schemas["Plan"];
export type VerbResult = Schemas["VerbResult"];
export type Verb = Plan["verb"];
/** What a verb takes beside its reason: as the body of its own route. */
export type Arguments = Readonly<Record<string, unknown>>;

export interface Wish {
  readonly jobId: string;
  readonly verb: Verb;
  readonly args?: Arguments;
}

/** How long the page waits for the owner's answer; afterwards the job itself shows what happened. */
const WAIT_SECONDS = 10;

export function planOf({ jobId, verb, args }: Wish): Promise<Plan> {
  const body = { verb, ...args } as unknown as Schemas["PlanOf"];
  return sent(client.POST("/api/v1/jobs/{job_id}/plan", { params: { path: { job_id: jobId } }, body }));
}

/** Carry out this plan, or nothing: a job that has moved on refuses it. */
export async function carryOut({ jobId, verb, args }: Wish, plan: Plan, reason: string): Promise<VerbResult> {
  const path = `/api/v1/jobs/{job_id}/${verb}` as "/api/v1/jobs/{job_id}/resume";
  const body = { ...args, reason, confirm: true, plan_id: plan.plan_id };
  const params = { path: { job_id: jobId }, query: { wait: WAIT_SECONDS } };
  const result = await sent<VerbResult>(client.POST(path, { params, body }));
  refresher.job(jobId);
  return result;
}

export function acknowledge(jobId: string, reason: string): Promise<Schemas["Acknowledgement"]> {
  return sent(client.POST("/api/v1/jobs/{job_id}/acknowledge", { params: { path: { job_id: jobId } }, body: { reason } }));
}

const VERB_TITLES: Readonly<Record<Verb, string>> = {
  cancel: "Cancel the job",
  pause: "Pause the job",
  unpause: "Let the job go on",
  resume: "Resume the job",
  retry: "Retry the node",
  clear: "Run tasks again",
  rerun: "Run again from the node",
  skip: "Skip the node",
  set: "Set the result of the node",
  undo: "Undo the job",
};

export function titleOf(verb: Verb): string {
  return VERB_TITLES[verb];
}

/** The command that does the same as a wish. */
export function commandOf({ jobId, verb, args }: Wish): string {
  const { node, items, code, fingerprint, only, tolerated, stale } = (args ?? {}) as Readonly<Record<string, unknown>>;
  const named = typeof node === "string" ? node : undefined;
  const isFrom = verb === "rerun" || verb === "undo";
  const flags = [
    ...(Array.isArray(items) ? items.flatMap((item) => ["--item", String(item)]) : []),
    ...(typeof code === "string" ? ["--code", code] : []),
    ...(typeof fingerprint === "string" ? ["--fingerprint", fingerprint] : []),
    ...(only === true ? ["--only"] : []),
    ...(tolerated === true ? ["--tolerated"] : []),
    ...(typeof stale === "string" ? ["--stale", stale] : []),
  ];
  return commandLine(verb, jobId, ...(named === undefined ? [] : isFrom ? ["--from", named] : [named]), ...flags);
}
