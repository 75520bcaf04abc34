// The service worker of the console. It shows push notifications and opens the console when one is chosen. It handles no request of a page, and has
// no key.

self.addEventListener("push", (event) => {
  event.waitUntil(show(event.data));
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(openAt(event.notification.data.hash));
});

/** A browser requires one notification for each message, so an unknown message is shown too. */
function show(data) {
  const { title, body, tag, hash } = noticeOf(read(data));
  return self.registration.showNotification(title, { body, tag, data: { hash } });
}

function read(data) {
  try {
    return data.json();
  } catch {
    return {};
  }
}

function noticeOf({ kind, approval_id, tool_name, thread_id }) {
  if (kind === "approval")
    return { title: "A call waits for approval", body: String(tool_name), tag: String(approval_id), hash: "#/inbox" };
  if (kind === "question") {
    const suffix = String(thread_id).slice(String(thread_id).indexOf(":") + 1);
    const hash = `#/chat/${encodeURIComponent(suffix)}`;
    return { title: "An agent has a question", body: suffix, tag: String(thread_id), hash };
  }
  return { title: "svc", body: "Something waits for you.", tag: "other", hash: "#/inbox" };
}

/** Shows a place in a tab of the console that is open, or in a new one. */
async function openAt(hash) {
  const tabs = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  const tab = tabs.find(({ url }) => new URL(url).pathname === "/console");
  if (tab === undefined) return self.clients.openWindow(`/console${hash}`);
  tab.postMessage({ hash });
  return tab.focus();
}
