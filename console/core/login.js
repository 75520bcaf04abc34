import { useEffect, useRef, useState } from "preact/hooks";
import { Icon } from "../parts/icon.js";
import { html } from "./html.js";
import { problem, signIn, signOut } from "./session.js";
import { failure, needsTenant, providers, startOf } from "./sign-in.js";

/** The page that offers the ways to sign in, and asks for a key. */
export function Login() {
  return html`<main class="login"><${Card} title="Open the console" /></main>`;
}

/** The login over a screen whose key has expired. The screen behind it keeps what was typed, for the same person. */
export function Renewal() {
  const element = useRef(null);
  const open = () => element.current?.isConnected && element.current.showModal();
  useEffect(open, []);
  return html`<dialog
    ref=${element}
    class="renewal"
    aria-label="Sign in again"
    onCancel=${(event) => event.preventDefault()}
    onClose=${open}
  >
    <div class="login">
      <${Card} title="Sign in again">
        <p>What you have typed stays if you sign in as the same person here. A sign-in at a provider opens the console anew.</p>
        <button type="button" onClick=${() => signOut()}>Leave without it</button>
      <//>
    </div>
  </dialog>`;
}

function Card({ title, children }) {
  const field = useRef(null);
  const [isBusy, setBusy] = useState(false);
  useEffect(() => field.current?.focus(), []);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    await signIn(field.current.value.trim());
    setBusy(false);
    field.current?.select();
  };
  return html`<form class="card login-card" onSubmit=${submit} autocomplete="off">
      <span class="brand-mark large" aria-hidden="true"><${Icon} name="code" size=${26} /></span>
      <h1>${title}</h1>
      <${Providers} />
      <p>Enter an API key or a token of this server. It stays in this tab until you close it, and is sent only to this server.</p>
      <label for="key">API key or token</label>
      <input
        id="key"
        ref=${field}
        type="password"
        autocomplete="off"
        spellcheck=${false}
        aria-invalid=${problem.value !== ""}
        aria-describedby="key-problem"
        required
      />
      <p id="key-problem" class="problem" role="alert">${problem.value}</p>
      <button class="primary" type="submit" disabled=${isBusy}>${isBusy ? "Opening…" : "Open"}</button>
      <p class="hint">No key yet? The operator of this server lists keys in <code>SVC_AUTH_API_KEYS</code>, or runs an identity provider.</p>
      ${children}
    </form>`;
}

/** A link for each provider at which people can sign in; nothing where there is none. */
function Providers() {
  const [tenant, setTenant] = useState("");
  if (providers.value.length === 0) return null;
  return html`<p class="problem" role="alert">${failure.value}</p>
    ${
      needsTenant.value &&
      html`<label for="tenant">Tenant</label>
        <input id="tenant" maxlength="64" autocomplete="off" spellcheck=${false} onInput=${(event) => setTenant(event.target.value.trim())} />`
    }
    ${providers.value.map(
      ({ id, name }) =>
        html`<a key=${id} class="button primary" href=${startOf(id, tenant)}>${`Sign in with ${name}`}</a>`,
    )}
    <p class="or">or</p>`;
}
