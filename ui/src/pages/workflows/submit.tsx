/** Submitting a workflow: a form that its inputs make, or a file; also with the inputs of an earlier job. */

import { useState } from "react";
import { useLocation } from "wouter";

import { client, type Schemas } from "../../api/client";
import { sent, useChange, useRead } from "../../api/hooks";
import { useAddressQuery } from "../../address";
import { Command, commandLine } from "../../components/command";
import { Failed, Loading, Shown } from "../../components/states";
import { inputsOf, kindOf, shownAs, type InputSchema, type InputsSchema, type Kind } from "./input_form";

export function Submit({ workflowId }: { readonly workflowId: string }) {
  const like = useAddressQuery().get("like");
  const schema = useRead("/api/v1/workflows/{workflow_id}/inputs", { path: { workflow_id: workflowId } });
  const before = useRead("/api/v1/jobs/{job_id}", { path: { job_id: like } }, { enabled: like !== "" });
  if (like !== "" && before.isPending) return <Loading rows={5} />;
  return (
    <Shown of={schema} rows={5}>
      {(found) => <Form workflowId={workflowId} schema={found as InputsSchema} before={(before.data?.inputs ?? {}) as Record<string, unknown>} isAgain={like !== ""} />}
    </Shown>
  );
}

interface FormProps {
  readonly workflowId: string;
  readonly schema: InputsSchema;
  readonly before: Readonly<Record<string, unknown>>;
  readonly isAgain: boolean;
}

function Form({ workflowId, schema, before, isAgain }: FormProps) {
  const properties = Object.entries(schema.properties ?? {});
  const [fields, setFields] = useState<Readonly<Record<string, string>>>(() =>
    Object.fromEntries(properties.map(([name, one]) => [name, shownAs(kindOf(one), before[name] ?? one.default)])),
  );
  const [key, setKey] = useState("");
  const [isForced, setForced] = useState(false);
  const [fileProblem, setFileProblem] = useState<string | null>(null);
  const [, navigate] = useLocation();
  const found = inputsOf(schema, fields);
  const problems = "problems" in found ? found.problems : {};
  const inputs = "inputs" in found ? found.inputs : {};
  const change = useChange(() =>
    sent<Schemas["Submission"]>(
      client.POST("/api/v1/jobs", {
        body: { workflow: workflowId, inputs, ...(key.trim() === "" ? {} : { key: key.trim() }), ...(isForced ? { force: true } : {}) } as never,
      }),
    ),
  );
  async function takeFile(file: File | undefined): Promise<void> {
    if (file === undefined) return;
    try {
      const read: unknown = JSON.parse(await file.text());
      if (typeof read !== "object" || read === null || Array.isArray(read)) throw new Error("it has no names and values");
      const values = read as Readonly<Record<string, unknown>>;
      setFields((now) => ({ ...now, ...Object.fromEntries(properties.map(([name, one]) => [name, name in values ? shownAs(kindOf(one), values[name]) : (now[name] ?? "")])) }));
      setFileProblem(null);
    } catch (error) {
      setFileProblem(`${file.name} cannot be used: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  const flags = Object.entries(inputs).flatMap(([name, value]) => ["--input", `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`]);
  return (
    <form
      className="panel submit-form"
      onSubmit={(event) => {
        event.preventDefault();
        change.mutate(undefined);
      }}
    >
      <h2>{isAgain ? "Run again with these inputs" : "Submit a job"}</h2>
      {properties.length === 0 ? <p className="quiet">The workflow takes no inputs.</p> : null}
      {properties.map(([name, one]) => (
        <InputField
          key={name}
          name={name}
          schema={one}
          isRequired={schema.required?.includes(name) ?? false}
          value={fields[name] ?? ""}
          problem={problems[name]}
          onChange={(value) => setFields((now) => ({ ...now, [name]: value }))}
        />
      ))}
      <details>
        <summary>More</summary>
        {properties.length === 0 ? null : (
          <label className="field">
            <span>Inputs from a JSON file</span>
            <input type="file" accept=".json,application/json" onChange={(event) => void takeFile(event.target.files?.[0])} />
            {fileProblem === null ? null : <span className="danger-text">{fileProblem}</span>}
          </label>
        )}
        <label className="field">
          <span>Key</span>
          <input value={key} onChange={(event) => setKey(event.target.value)} placeholder="the same key is the same job" />
        </label>
        <label className="row">
          <input type="checkbox" checked={isForced} onChange={(event) => setForced(event.target.checked)} /> Make a new job, even if the same
          submission has made one
        </label>
      </details>
      {change.error ? <Failed error={change.error} /> : null}
      {change.data === undefined ? null : <Answer submission={change.data} />}
      <div className="dialog-foot">
        <span className="grow">
          <Command text={commandLine("submit", workflowId, ...flags, ...(key.trim() ? ["--key", key.trim()] : []), isForced && "--force")} />
        </span>
        {change.data === undefined ? null : (
          <button type="button" className="button" onClick={() => navigate(`/jobs/${change.data.job_id}`)}>
            Open the job
          </button>
        )}
        <button type="submit" className="button main-action" disabled={"problems" in found || change.isPending}>
          Submit
        </button>
      </div>
    </form>
  );
}

function Answer({ submission }: { readonly submission: Schemas["Submission"] }) {
  const words: Readonly<Record<string, string>> = {
    created: "A new job was made.",
    forced: "A new job was made.",
    already_processing: "The same submission made a job before, which is running.",
    already_completed: "The same submission made a job before, which has completed.",
    previously_failed: `The same submission made a job before, which is ${submission.status}. Resume it, or make a new job.`,
    resumed: "The job of the same submission continues.",
  };
  return (
    <p role="status" className="banner">
      {words[submission.answer] ?? submission.answer} {submission.definition_changed ? "It was made by another version of the workflow." : ""}
    </p>
  );
}

interface FieldProps {
  readonly name: string;
  readonly schema: InputSchema;
  readonly isRequired: boolean;
  readonly value: string;
  readonly problem: string | undefined;
  readonly onChange: (value: string) => void;
}

function InputField({ name, schema, isRequired, value, problem, onChange }: FieldProps) {
  const kind = kindOf(schema);
  return (
    <label className="field">
      <span>
        {name}
        {isRequired ? <span className="quiet"> (required)</span> : null}
      </span>
      {control(kind, schema, value, onChange)}
      <span className="quiet small">{[schema.description, hintOf(kind, schema)].filter(Boolean).join(" · ")}</span>
      {problem !== undefined && value !== "" ? <span className="danger-text small">{problem}</span> : null}
    </label>
  );
}

function control(kind: Kind, schema: InputSchema, value: string, onChange: (value: string) => void) {
  switch (kind) {
    case "choice":
      return (
        <select value={value} onChange={(event) => onChange(event.target.value)}>
          <option value="" />
          {schema.enum?.map((one) => (
            <option key={JSON.stringify(one)} value={JSON.stringify(one)}>
              {String(one)}
            </option>
          ))}
        </select>
      );
    case "boolean":
      return (
        <select value={value} onChange={(event) => onChange(event.target.value)}>
          <option value="" />
          <option value="true">yes</option>
          <option value="false">no</option>
        </select>
      );
    case "json":
      return <textarea rows={4} value={value} spellCheck={false} placeholder="[ … ] or { … }" onChange={(event) => onChange(event.target.value)} />;
    default:
      return <input value={value} inputMode={kind === "number" ? "decimal" : "text"} onChange={(event) => onChange(event.target.value)} />;
  }
}

function hintOf(kind: Kind, schema: InputSchema): string {
  const parts = [
    kind === "json" ? "as JSON" : null,
    schema.pattern === undefined ? null : `matches ${schema.pattern}`,
    schema.minimum === undefined ? null : `at least ${schema.minimum}`,
    schema.maximum === undefined ? null : `at most ${schema.maximum}`,
  ];
  return parts.filter(Boolean).join(", ");
}
