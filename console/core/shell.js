import { useEffect, useState } from "preact/hooks";
import { Icon } from "../parts/icon.js";
import { Page } from "../parts/page.js";
import { Failed, Loading } from "../parts/states.js";
import { Toasts } from "../parts/toast.js";
import { screens } from "../screens/screens.js";
import { html } from "./html.js";
import { waiting } from "./live.js";
import { Login, Renewal } from "./login.js";
import { pushState, stopPush } from "./push.js";
import { go, place, to } from "./router.js";
import { has, may, missing, person, phase, signOut, who } from "./session.js";
import { isDark, switchTheme, theme } from "./theme.js";

/** How many screens the bar of a phone shows beside "More". */
const inBar = 4;

/** The page: a login, or the navigation with a screen. */
export function Shell() {
  if (phase.value === "starting") return html`<${Loading} label="Opening the console" />`;
  if (phase.value === "asking") return html`<${Login} />`;
  return html`<${Open} key=${person.value} />${phase.value === "expired" ? html`<${Renewal} />` : null}`;
}

function Open() {
  const shown = screens.filter(({ route }) => has(route));
  const { screen: name } = place.value;
  const screen = shown.find((each) => each.name === name);
  useEffect(() => {
    if (!screen) go(to((shown.find(({ route }) => may(route)) ?? shown[0]).name), { replace: true });
  }, [screen]);
  useEffect(() => {
    document.title = screen ? `${screen.title} · svc` : "svc console";
  }, [screen]);
  return html`<div class="shell">
    <a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    <${Navigation} shown=${shown.filter(({ isHidden }) => !isHidden)} current=${name} />
    <main id="main" class="main" tabindex="-1">
      ${screen ? html`<${ScreenOf} key=${screen.name} screen=${screen} />` : null}
    </main>
    <${Toasts} />
  </div>`;
}

/** Signs out. The notifications of this browser end first, because ending them needs the key. */
function leave() {
  const isSubscribed = pushState.value === "on";
  void (isSubscribed ? stopPush() : Promise.resolve()).catch(() => {}).then(() => signOut());
}

function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

/** A screen whose module is loaded when it is first opened. */
function ScreenOf({ screen }) {
  const [state, setState] = useState({ Screen: null, error: null });
  const load = () => {
    screen.load().then(
      (module) => setState({ Screen: module.Screen, error: null }),
      (error) => setState({ Screen: null, error }),
    );
  };
  useEffect(load, []);
  if (!may(screen.route)) return html`<${NotAllowed} screen=${screen} />`;
  if (state.error)
    return html`<${Page} title=${screen.title}><${Failed} error=${new Error("This screen could not be loaded. The server may have a new release: reload the page.")} retry=${() => location.reload()} /><//>`;
  if (!state.Screen) return html`<${Page} title=${screen.title}><${Loading} label="Loading the screen" /><//>`;
  return html`<${state.Screen} />`;
}

function NotAllowed({ screen }) {
  return html`<div class="state">
    <${Icon} name=${screen.icon} size=${32} />
    <h1>${screen.title}</h1>
    <p>This key lacks ${missing(screen.route).map((scope) => html`<code>${scope}</code> `)}, which this screen needs.</p>
  </div>`;
}

function Navigation({ shown, current }) {
  const [isOpen, setOpen] = useState(false);
  const close = () => setOpen(false);
  useEffect(close, [current]);
  useEffect(() => {
    if (!isOpen) return;
    const onKey = (event) => {
      if (event.key === "Escape") close();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [isOpen]);
  const link = ({ name, title, icon, route }, className = "") => html`<a
    key=${name}
    class=${`nav-link ${className} ${may(route) ? "" : "nav-off"}`}
    href=${to(name)}
    aria-current=${current === name ? "page" : undefined}
    title=${may(route) ? undefined : "This key lacks the scope for this screen"}
  >
    <${Icon} name=${icon} size=${20} />
    <span class="nav-title">${title}</span>
    ${
      name === "inbox" && waiting.value > 0
        ? html`<span class="badge count" aria-label=${`${waiting.value} open`}>${waiting.value}</span>`
        : null
    }
  </a>`;
  return html`<nav class=${`nav ${isOpen ? "nav-open" : ""}`} aria-label="Screens">
    <a class="brand" href=${to("chat")} aria-label="svc console">
      <span class="brand-mark" aria-hidden="true"><${Icon} name="code" size=${18} /></span>
      <span class="nav-title">svc</span>
    </a>
    <div class="nav-links">${shown.map((screen, at) => link(screen, at < inBar ? "" : "nav-late"))}</div>
    ${
      shown.length > inBar
        ? html`<button type="button" class="nav-link nav-more" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
          <${Icon} name="more" size=${20} /><span class="nav-title">More</span>
        </button>`
        : null
    }
    <${Foot} />
  </nav>`;
}

function Foot() {
  const { sub, tenant_id, version, scheme } = who.value;
  const dark = theme.value !== undefined && isDark();
  return html`<div class="nav-foot">
    <div class="who" title=${`${sub} of ${tenant_id}`}>
      <span class="avatar" aria-hidden="true">${(sub || "?").slice(0, 1).toUpperCase()}</span>
      <span class="who-text"><b>${scheme === "none" ? "No sign-in needed" : sub}</b><small>${tenant_id} · ${version}</small></span>
    </div>
    <div class="nav-tools">
      <button type="button" class="ghost icon-button" aria-label=${dark ? "Use light colours" : "Use dark colours"} onClick=${switchTheme}>
        <${Icon} name=${dark ? "sun" : "moon"} />
      </button>
      ${
        scheme === "none"
          ? null
          : html`<button type="button" class="ghost icon-button" aria-label="Sign out" onClick=${leave}><${Icon} name="out" /></button>`
      }
    </div>
  </div>`;
}
