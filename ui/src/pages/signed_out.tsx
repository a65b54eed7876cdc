/** What a visitor sees who is not signed in. */

import { signInAddress } from "../api/session";
import { Command } from "../components/command";

export function SignedOut() {
  return (
    <main className="main signed-out">
      <div className="panel">
        <h1>Holdfast</h1>
        <p>Sign in to see the jobs of your tenant.</p>
        <p>
          <a className="button main-action" href={signInAddress()}>
            Sign in
          </a>
        </p>
        <p className="quiet">
          You need a key. Who runs the service makes one: <Command text="holdfast keys add NAME --role operator" />
        </p>
      </div>
    </main>
  );
}
