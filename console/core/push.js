import { signal } from "@preact/signals";
import { call } from "./api.js";
import { go } from "./router.js";
import { has, may } from "./session.js";

// Push notifications of this browser. The service worker shows them, and this module subscribes the browser.

const workerUrl = "/console/worker.js";
const scope = "/console/";

/** `hidden` where the browser, the server or the key does not allow push; `off`, `on`, or `blocked` by the person. */
export const pushState = signal("hidden");

/** The policy of the page lets scripts of this one address become workers, and no other. */
const policy = globalThis.trustedTypes?.createPolicy("svc-worker", {
  createScriptURL(url) {
    if (url !== workerUrl) throw new TypeError("no such worker");
    return url;
  },
});

/** Looks whether this browser can be subscribed, and whether it is. */
export async function lookAtPush() {
  const canPush = "serviceWorker" in navigator && "PushManager" in globalThis && "Notification" in globalThis;
  if (!canPush || !has("POST /push/subscriptions") || !may("POST /push/subscriptions")) return;
  // The server answers 503 while push is not configured.
  const isConfigured = await call("GET /push/vapid-public-key").then(
    () => true,
    () => false,
  );
  if (!isConfigured) return;
  if (Notification.permission === "denied") pushState.value = "blocked";
  else pushState.value = (await ownSubscription()) ? "on" : "off";
}

/** Asks the person, and subscribes this browser. */
export async function startPush() {
  if ((await Notification.requestPermission()) !== "granted") {
    pushState.value = Notification.permission === "denied" ? "blocked" : "off";
    return;
  }
  const { public_key } = await call("GET /push/vapid-public-key");
  const registration = await navigator.serviceWorker.register(policy?.createScriptURL(workerUrl) ?? workerUrl, {
    scope,
  });
  // A subscription with an earlier key of the server gets nothing any more.
  const earlier = await registration.pushManager.getSubscription();
  if (earlier !== null && keyOf(earlier) !== public_key) await earlier.unsubscribe();
  await active(registration);
  const options = { userVisibleOnly: true, applicationServerKey: public_key };
  const subscription = await registration.pushManager.subscribe(options).catch(() => {
    throw new Error("This browser could not subscribe: it may block push here, or its push service does not answer.");
  });
  const { endpoint, keys } = subscription.toJSON();
  await call("POST /push/subscriptions", { endpoint, keys });
  pushState.value = "on";
}

/** Ends the subscription of this browser. */
export async function stopPush() {
  const subscription = await ownSubscription();
  if (subscription === null) return;
  const { endpoint } = subscription;
  await subscription.unsubscribe();
  // The push service refuses what the server still sends, so a failure here is harmless.
  await call("DELETE /push/subscriptions", { endpoint }).catch(() => {});
  if (pushState.value === "on") pushState.value = "off";
}

async function ownSubscription() {
  const registration = await navigator.serviceWorker?.getRegistration(scope);
  return (await registration?.pushManager.getSubscription()) ?? null;
}

/** Resolves when a worker of the registration is active, which a subscription needs. */
function active({ installing, waiting, active: now }) {
  const worker = installing ?? waiting;
  if (now || !worker) return Promise.resolve();
  return new Promise((resolve) => {
    worker.addEventListener("statechange", () => {
      if (worker.state === "activated" || worker.state === "redundant") resolve();
    });
  });
}

function keyOf({ options }) {
  const bytes = new Uint8Array(options.applicationServerKey ?? []);
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
}

// A notification was chosen while this tab was open.
globalThis.navigator?.serviceWorker?.addEventListener("message", ({ data }) => {
  if (/^#\/(inbox|chat\/[\w.%~-]+)$/.test(data?.hash)) go(data.hash);
});
