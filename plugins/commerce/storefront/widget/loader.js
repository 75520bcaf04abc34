// Adds the chat of a storefront to a page:
//   <script src="https://svc.example/widget/loader.js" data-storefront="acme-shoes" async></script>
// The chat lives in a frame of svc's own origin, so the page cannot read it. Both sides check the origin of each message.
(() => {
  const script = /** @type {HTMLScriptElement | null} */ (document.currentScript);
  const storefront = script?.dataset.storefront;
  if (!script || !storefront) return;
  const { origin } = new URL(script.src);
  const frame = document.createElement("iframe");
  const query = new URLSearchParams({ storefront, parent: location.origin });
  frame.src = `${origin}/widget/frame?${query}`;
  frame.title = script.dataset.title ?? "Chat";
  frame.allow = "";
  frame.referrerPolicy = "no-referrer";
  const closed = { width: "72px", height: "72px" };
  const open = { width: "min(400px, 100vw)", height: "min(640px, 100vh)" };
  const place = {
    position: "fixed",
    right: "16px",
    bottom: "16px",
    border: "0",
    zIndex: "2147483000",
    colorScheme: "normal",
  };
  Object.assign(frame.style, place, closed);
  addEventListener("message", ({ origin: from, source, data }) => {
    if (from !== origin || source !== frame.contentWindow) return;
    if (data?.type === "svc:open") Object.assign(frame.style, open);
    else if (data?.type === "svc:close") Object.assign(frame.style, closed);
  });
  const add = () => document.body.append(frame);
  if (document.body) add();
  else addEventListener("DOMContentLoaded", add);
})();
