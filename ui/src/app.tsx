/** The pages and their addresses. What is large, or rarely asked for, is loaded when it is opened. */

import { lazy, Suspense } from "react";
import { Route, Switch } from "wouter";

import { problemFrom } from "./api/client";
import { useRead } from "./api/hooks";
import { SessionContext } from "./api/session";
import { Empty, Failed, Loading } from "./components/states";
import { Jobs } from "./pages/jobs/jobs";
import { Overview } from "./pages/overview/overview";
import { SignedOut } from "./pages/signed_out";
import { Shell } from "./shell";
import { Plans } from "./verbs/verb_button";

const Job = lazy(() => import("./pages/job/job").then((page) => ({ default: page.JobPage })));
const Workflows = lazy(() => import("./pages/workflows/workflows").then((page) => ({ default: page.Workflows })));
const Workflow = lazy(() => import("./pages/workflows/workflow").then((page) => ({ default: page.WorkflowPage })));
const Schedules = lazy(() => import("./pages/schedules/schedules").then((page) => ({ default: page.Schedules })));
const Queues = lazy(() => import("./pages/queues/queues").then((page) => ({ default: page.Queues })));
const Gates = lazy(() => import("./pages/gates/gates").then((page) => ({ default: page.Gates })));
const Janitor = lazy(() => import("./pages/janitor/janitor").then((page) => ({ default: page.Janitor })));
const Deliveries = lazy(() => import("./pages/deliveries/deliveries").then((page) => ({ default: page.Deliveries })));
const Webhooks = lazy(() => import("./pages/webhooks/webhooks").then((page) => ({ default: page.Webhooks })));
const Audit = lazy(() => import("./pages/audit/audit").then((page) => ({ default: page.Audit })));
const Keys = lazy(() => import("./pages/keys/keys").then((page) => ({ default: page.Keys })));
const Installation = lazy(() => import("./pages/installation/installation").then((page) => ({ default: page.Installation })));

export function App() {
  const session = useRead("/api/v1/session", {});
  if (session.data === undefined) {
    if (session.error && problemFrom(session.error).status === 401) return <SignedOut />;
    if (session.error) return <Failed error={session.error} again={() => void session.refetch()} />;
    return <Loading />;
  }
  if (session.data.credential === "none") return <SignedOut />;
  return (
    <SessionContext value={session.data}>
      <Plans>
        <Shell>
          <Suspense fallback={<Loading rows={6} />}>
            <Switch>
              <Route path="/" component={Overview} />
              <Route path="/jobs" component={Jobs} />
              <Route path="/jobs/:job/*?" component={Job} />
              <Route path="/workflows" component={Workflows} />
              <Route path="/workflows/:workflow/*?" component={Workflow} />
              <Route path="/schedules" component={Schedules} />
              <Route path="/queues" component={Queues} />
              <Route path="/gates" component={Gates} />
              <Route path="/janitor" component={Janitor} />
              <Route path="/deliveries" component={Deliveries} />
              <Route path="/webhooks" component={Webhooks} />
              <Route path="/audit" component={Audit} />
              <Route path="/keys" component={Keys} />
              <Route path="/installation" component={Installation} />
              <Route>
                <Empty title="There is no such page.">
                  The address is wrong, or what it showed is gone. The list of pages is on the left.
                </Empty>
              </Route>
            </Switch>
          </Suspense>
        </Shell>
      </Plans>
    </SessionContext>
  );
}
