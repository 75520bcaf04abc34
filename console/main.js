import { render } from "preact";
import { html } from "./core/html.js";
import { start } from "./core/session.js";
import { Shell } from "./core/shell.js";

render(html`<${Shell} />`, document.getElementById("app"));
void start();
