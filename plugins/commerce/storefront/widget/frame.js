import { createClient } from "../../../../client/client.js";
import { readFrames } from "../../../../client/frames.js";

// The chat of a storefront in a frame. Texts of the model are shown as texts only. The thread is kept in sessionStorage, or in memory
// where the browser refuses storage to frames of other sites.

const query = new URLSearchParams(location.search);
const storefront = query.get("storefront") ?? "";
const parentOrigin = query.get("parent") ?? "";
const client = /** @type {any} */ (createClient());
const stored = `svc:shop:${storefront}`;
/** @type {string | undefined} */
let thread = recall();
let busy = false;

/** @param {string} id @returns {HTMLElement} */
const at = (id) => /** @type {HTMLElement} */ (document.getElementById(id));
const log = at("log");
const input = /** @type {HTMLInputElement} */ (at("input"));

function recall() {
  try {
    return sessionStorage.getItem(stored) ?? undefined;
  } catch {
    return undefined;
  }
}

/** @param {string} id */
function remember(id) {
  thread = id;
  try {
    sessionStorage.setItem(stored, id);
  } catch {
    // The browser refuses storage; the thread lives as long as the frame.
  }
}

/** Tells the page to show the frame large or small. @param {boolean} open */
function show(open) {
  at("panel").hidden = !open;
  at("launcher").hidden = open;
  if (parentOrigin !== "") parent.postMessage({ type: open ? "svc:open" : "svc:close" }, parentOrigin);
  if (open) input.focus();
}

/** @param {string} role @param {string} text */
function say(role, text) {
  const line = document.createElement("p");
  line.className = role;
  line.textContent = text;
  log.append(line);
  log.scrollTop = log.scrollHeight;
  return line;
}

/** @param {number} cents @param {string} currency */
function price(cents, currency) {
  return new Intl.NumberFormat(undefined, { style: "currency", currency }).format(cents / 100);
}

/** Shows the amounts of the cart as the server counts them. @param {any} cart */
function showCart(cart) {
  const lines = cart === null ? [] : cart.items;
  at("cart").hidden = lines.length === 0;
  if (lines.length > 0) at("cart").textContent = `Cart: ${lines.length} × ${price(cart.total_cents, cart.currency)}`;
}

/** Shows the purchases that wait for the shopper. @param {any[]} approvals */
function showApprovals(approvals) {
  at("approvals").replaceChildren(
    ...approvals.map(({ approval_id, charge }) => {
      const card = document.createElement("div");
      card.className = "card";
      const words = document.createElement("p");
      words.textContent = `Confirm this purchase?\n${charge}`;
      card.append(
        words,
        button("Confirm", () => decide(approval_id, "approved")),
        button("Cancel", () => decide(approval_id, "denied")),
      );
      return card;
    }),
  );
}

/** @param {string} text @param {() => void} work */
function button(text, work) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.addEventListener("click", work);
  return made;
}

/** @param {string} approval_id @param {"approved" | "denied"} decision */
async function decide(approval_id, decision) {
  const body = { storefront, thread_id: thread, approval_id, decision };
  try {
    const answer = await client.call("POST /shop/{storefront}/confirm", body);
    showApprovals(answer.approvals);
    await ask(decision === "approved" ? "I confirm the purchase." : "I do not want to buy this.");
  } catch {
    say("notice", "This could not be confirmed. Please try again.");
  }
}

/** Shows the link to the payment page. @param {any} data */
function showResult({ name, output }) {
  if (name !== "commerce_checkout") return;
  const found = /https:\/\/[^\s"\\]+/.exec(output);
  if (!found) return;
  const link = document.createElement("a");
  link.href = found[0];
  link.target = "_blank";
  link.rel = "noopener noreferrer";
  link.textContent = "Pay";
  say("assistant", "").append(link);
}

/** Sends a message and shows the answer as it arrives. @param {string} text */
async function ask(text) {
  if (busy) return;
  busy = true;
  say("user", text);
  const body = { storefront, messages: [{ role: "user", content: text }], thread_id: thread, channel: "widget" };
  /** @type {HTMLElement | null} */
  let line = null;
  try {
    const response = await client.open("POST /shop/{storefront}/chat/stream", body);
    for await (const frame of readFrames(response)) {
      if (frame.event === "session") remember(frame.data.thread_id);
      else if (frame.event === "text_delta") {
        line ??= say("assistant", "");
        line.textContent += frame.data.delta;
      } else if (frame.event === "tool_end") {
        showResult(frame.data);
        line = null;
      } else if (frame.event === "cart") showCart(frame.data.cart);
      else if (frame.event === "approvals") showApprovals(frame.data.approvals);
      else if (frame.event === "on_error") say("notice", frame.data.message);
    }
  } catch {
    say("notice", "The chat is not available now. Please try again.");
  }
  busy = false;
}

at("launcher").addEventListener("click", () => show(true));
at("close").addEventListener("click", () => show(false));
at("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = input.value.trim();
  if (text === "" || busy) return;
  input.value = "";
  void ask(text);
});
addEventListener("message", ({ origin, source, data }) => {
  if (source !== parent || origin !== parentOrigin) return;
  if (data?.type === "svc:open") show(true);
  else if (data?.type === "svc:close") show(false);
});

const { name, identity } = await client.call("GET /shop/{storefront}/config", { storefront });
at("title").textContent = name;
document.documentElement.style.setProperty("--brand", identity.theme.primary_color);
if (identity.greeting !== "") say("assistant", identity.greeting);
for (const starter of identity.starters)
  at("starters").append(
    button(starter, () => {
      at("starters").replaceChildren();
      void ask(starter);
    }),
  );
