/** The nodes of a job as a drawing. A fan-out is one box with a bar, whatever its width. */

import dagre from "@dagrejs/dagre";
import { Background, Controls, Handle, MarkerType, Position, ReactFlow, type Edge, type Node, type NodeProps } from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import { useMemo } from "react";
import { useLocation } from "wouter";

import type { Schemas } from "../../api/client";
import { useRead } from "../../api/hooks";
import { Shown } from "../../components/states";
import { HeldMark, StateBar, StatusBadge } from "../../components/status";
import { Lasting } from "../../components/time";
import { count } from "../../words/numbers";
import { nodeAddress } from "./banner";
import type { Job } from "./job";

type NodeState = Schemas["NodeState"];
type WorkflowGraph = Schemas["WorkflowGraph"];
type Box = Node<{ readonly state: NodeState | undefined; readonly name: string; readonly type: string }, "box">;

const WIDTH = 210;
const HEIGHT = 74;
const MOST_DRAWN = 400;
const MOST_LABEL = 240;
const LETTER = 6;

export function Graph({ job }: { readonly job: Job }) {
  const definition = useRead("/api/v1/jobs/{job_id}/definition", { path: { job_id: job.job_id } });
  const hash = definition.data?.definition_hash;
  const graph = useRead(
    "/api/v1/workflows/{workflow_id}/graph",
    { path: { workflow_id: job.workflow_id }, query: { definition_hash: hash } },
    { enabled: hash !== undefined },
  );
  if (job.nodes.length > MOST_DRAWN) return <NodeList job={job} note={`A drawing of ${count(job.nodes.length)} nodes cannot be read.`} />;
  if (definition.error) return <NodeList job={job} />;
  return (
    <div className="stack">
      <Shown of={graph} rows={8}>
        {(found) => <Drawing job={job} graph={found as WorkflowGraph} />}
      </Shown>
      <NodeList job={job} />
    </div>
  );
}

function Drawing({ job, graph }: { readonly job: Job; readonly graph: WorkflowGraph }) {
  const [, navigate] = useLocation();
  const places = useMemo(() => laidOut(graph), [graph]);
  const states = new Map(job.nodes.map((node) => [node.node, node]));
  const nodes: Box[] = graph.nodes.map((node) => ({
    id: node.node,
    type: "box",
    position: places.get(node.node) ?? { x: 0, y: 0 },
    data: { state: states.get(node.node), name: node.node, type: node.type },
    width: WIDTH,
    height: HEIGHT,
    draggable: false,
    connectable: false,
  }));
  const edges: Edge[] = graph.edges.map((edge, index) => ({
    id: String(index),
    source: edge.source,
    target: edge.target,
    label: edge.label || undefined,
    className: isDim(states.get(edge.target)) ? "dim" : "",
    markerEnd: { type: MarkerType.ArrowClosed },
    style: edge.any ? { strokeDasharray: "4 3" } : {},
  }));
  const rows = Math.max(1, ...[...places.values()].map((place) => place.y + HEIGHT));
  return (
    <div className="graph" style={{ height: Math.min(560, Math.max(220, rows + 80)) }}>
      <ReactFlow
        nodes={nodes}
        edges={edges}
        nodeTypes={NODE_TYPES}
        fitView
        fitViewOptions={{ maxZoom: 1, padding: 0.1 }}
        minZoom={0.1}
        nodesConnectable={false}
        edgesFocusable={false}
        onNodeClick={(_event, node) => navigate(nodeAddress(job, node.id, null))}
        proOptions={{ hideAttribution: true }}
        aria-label="The nodes of the job"
      >
        <Background />
        <Controls showInteractive={false} />
      </ReactFlow>
    </div>
  );
}

const NODE_TYPES = { box: BoxView };

function BoxView({ data }: NodeProps<Box>) {
  const { state, name, type } = data;
  return (
    <div className={`node-box${isDim(state) ? " dim" : ""}`}>
      <Handle type="target" position={Position.Left} />
      <div className="node-name" title={name}>
        {name}
      </div>
      <div className="row small">
        {state === undefined ? <span className="quiet">{type}</span> : <StatusBadge status={state.status} note={retries(state)} />}
        {state?.held ? <span title={`Held by ${state.held.by} ${state.held.name}`}>‖</span> : null}
      </div>
      {state !== undefined && state.counts.total > 1 ? (
        <div className="node-counts">
          <StateBar counts={state.counts} />
          <span className="quiet">
            {count(state.counts.completed)}/{count(state.counts.total)}
          </span>
        </div>
      ) : null}
      <Handle type="source" position={Position.Right} />
    </div>
  );
}

function retries(state: NodeState): string | null {
  return state.attempt !== null && state.attempt > 1 ? `attempt ${state.attempt}` : null;
}

function isDim(state: NodeState | undefined): boolean {
  return state?.status === "skipped" || state?.status === "cancelled";
}

/** The condition of a branch needs room between the boxes. */
function roomFor(label: string): { readonly width: number; readonly height: number } {
  return label === "" ? { width: 0, height: 0 } : { width: Math.min(MOST_LABEL, LETTER * label.length), height: 24 };
}

/** Layers from left to right. */
export function laidOut(graph: Pick<WorkflowGraph, "nodes" | "edges">): ReadonlyMap<string, { x: number; y: number }> {
  const plan = new dagre.graphlib.Graph();
  plan.setGraph({ rankdir: "LR", nodesep: 24, ranksep: 56 });
  plan.setDefaultEdgeLabel(() => ({}));
  for (const node of graph.nodes) plan.setNode(node.node, { width: WIDTH, height: HEIGHT });
  for (const edge of graph.edges) plan.setEdge(edge.source, edge.target, roomFor(edge.label));
  dagre.layout(plan);
  return new Map(
    graph.nodes.map((node) => {
      const { x, y } = plan.node(node.node);
      return [node.node, { x: x - WIDTH / 2, y: y - HEIGHT / 2 }];
    }),
  );
}

function NodeList({ job, note }: { readonly job: Job; readonly note?: string }) {
  const [, navigate] = useLocation();
  return (
    <section tabIndex={0} className="panel scroll-x" aria-label="Nodes">
      {note ? <p className="quiet">{note}</p> : null}
      <table className="plain-table nodes">
        <thead>
          <tr>
            <th>node</th>
            <th>status</th>
            <th>tasks</th>
            <th>importance</th>
            <th className="number">took</th>
            <th>why</th>
          </tr>
        </thead>
        <tbody>
          {job.nodes
            .filter((node) => node.type !== "start" && node.type !== "end")
            .map((node) => (
              <tr key={node.node} className="clickable" onClick={() => navigate(nodeAddress(job, node.node, null))}>
                <td>
                  <a
                    href={nodeAddress(job, node.node, null)}
                    onClick={(event) => {
                      event.preventDefault();
                    }}
                  >
                    {node.node}
                  </a>
                </td>
                <td>
                  <StatusBadge status={node.status} note={retries(node)} /> <HeldMark held={node.held} />
                  {node.stale ? <span className="held"> stale</span> : null}
                  {node.by_hand === null ? null : <span className="held"> by hand: {node.by_hand.by}</span>}
                </td>
                <td className="bar-cell">
                  {node.counts.total > 0 ? <StateBar counts={node.counts} /> : null}
                  {node.counts.total > 1 ? (
                    <span className="quiet small">
                      {count(node.counts.completed)} of {count(node.counts.total)}
                      {node.counts.failed > 0 ? `, ${count(node.counts.failed)} failed` : ""}
                    </span>
                  ) : null}
                </td>
                <td>{node.importance}</td>
                <td className="number">
                  <Lasting from={node.started_at} to={node.finished_at} />
                </td>
                <td>{node.error?.message ?? node.undo?.error?.message ?? ""}</td>
              </tr>
            ))}
        </tbody>
      </table>
    </section>
  );
}
