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

const Job = lazy(() => import("./pages/job/job").then((page) => ({ default: page.JobPage })));

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
      <Shell>
        <Suspense fallback={<Loading rows={6} />}>
          <Switch>
            <Route path="/" component={Overview} />
            <Route path="/jobs" component={Jobs} />
            <Route path="/jobs/:job/*?" component={Job} />
            <Route>
              <Empty title="There is no such page.">
                The address is wrong, or what it showed is gone. The list of pages is on the left.
              </Empty>
            </Route>
          </Switch>
        </Suspense>
      </Shell>
    </SessionContext>
  );
}
