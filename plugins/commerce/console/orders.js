import { ago, line, moment, suffixOf } from "svc/console/core/format.js";
import { html } from "svc/console/core/html.js";
import { usePages, useResource } from "svc/console/core/resource.js";
import { go, place, to } from "svc/console/core/router.js";
import { may } from "svc/console/core/session.js";
import { Icon } from "svc/console/parts/icon.js";
import { Choice, Facts, Page } from "svc/console/parts/page.js";
import { PagesList } from "svc/console/parts/pages-list.js";
import { Empty, Failed, Loading } from "svc/console/parts/states.js";
import { BrandPicker, Lines, price, State, useBrands } from "./shop-parts.js";

const tabs = [
  ["", "All"],
  ["pending", "Pending"],
  ["paid", "Paid"],
  ["fulfilled", "Fulfilled"],
  ["cancelled", "Cancelled"],
];

/** The orders of the tenant or of one of its brands; or one order. */
export function Screen() {
  const { parts, query } = place.value;
  const brand = query.get("brand") ?? "";
  if (parts[0] !== undefined) return html`<${Order} key=${parts[0]} id=${parts[0]} brand=${brand} />`;
  return html`<${Orders} brand=${brand} status=${query.get("status") ?? ""} />`;
}

function Orders({ brand, status }) {
  const pages = usePages("GET /commerce/orders", { status, brand, limit: 50 });
  const { brands } = useBrands();
  const show = (change) => go(to("orders", [], { brand, status, ...change }), { replace: true });
  return html`<${Page}
    title="Orders"
    about="What shoppers, agents and businesses have ordered"
    tools=${html`<button type="button" class="ghost icon-button" aria-label="Refresh" onClick=${pages.reload}><${Icon} name="refresh" size=${16} /></button>`}
    filters=${html`<${Choice} label="State" options=${tabs} value=${status} choose=${(next) => show({ status: next })} />
      ${brands?.length ? html`<${BrandPicker} brands=${brands} value=${brand} choose=${(next) => show({ brand: next })} own="this tenant" />` : null}`}
  >
    <${PagesList}
      pages=${pages}
      keyOf=${({ id }) => id}
      row=${(order) => html`<${Row} order=${order} brand=${brand} />`}
      label="Orders"
      estimate=${64}
      empty=${html`<${Empty} icon="tag" title=${status === "" ? "No order yet" : `No order is ${status}`}>An order begins with a checkout in a chat, an agent's purchase, or a quote.<//>`}
    />
  <//>`;
}

function Row({ order, brand }) {
  const { id, status, channel, items, total_cents, currency, oversold, refunded_cents, created_at } = order;
  return html`<div class="row">
    <a class="row-main" href=${to("orders", [id], { brand })}>
      <b dir="auto">${line(items.map(({ qty, title }) => `${qty} × ${title}`).join(", "), 120)}</b>
      <small><code>${id}</code> ${channel}</small>
    </a>
    ${oversold ? html`<span class="chip bad">oversold</span>` : null}
    ${refunded_cents > 0 ? html`<span class="chip warn">refunded ${price(refunded_cents, currency)}</span>` : null}
    <${State} of=${status} />
    <span class="row-time">${price(total_cents, currency)} · ${ago(created_at)}</span>
  </div>`;
}

function Order({ id, brand }) {
  const { data: order, error, reload } = useResource("GET /commerce/orders/{id}", { id, brand });
  const back = html`<a class="button ghost icon-button" href=${to("orders", [], { brand })} aria-label="All orders"><${Icon} name="left" size=${16} /></a>`;
  return html`<${Page} title="Order" tools=${back} about=${id}>
    ${
      error
        ? html`<${Failed} error=${error} retry=${reload} />`
        : order === null
          ? html`<${Loading} label="Reading the order" />`
          : html`<${Details} order=${order} brand=${brand} />`
    }
  <//>`;
}

function Details({ order, brand }) {
  const { id, status, items, currency, oversold, refunded_cents, account_id, buyer_subject, payment_ref } = order;
  const amount = (cents) => price(cents, currency);
  const sums = [
    ["Subtotal", amount(order.subtotal_cents)],
    ["Discount", amount(order.discount_cents)],
    ["Shipping", amount(order.shipping_cents)],
    ["Tax", amount(order.tax_cents)],
    ["Total", amount(order.total_cents)],
    ["Refunded", amount(refunded_cents)],
  ];
  const lines = items.map(({ product_id, title, qty, price_cents }) => [product_id, title, qty, amount(price_cents)]);
  return html`<div class="scroll stack" tabindex="0" role="region" aria-label="Order">
    <section class="panel stack" aria-label="Facts">
      <div class="buttons"><${State} of=${status} />${oversold ? html`<span class="chip bad">oversold: the stock was too short when it was paid</span>` : null}</div>
      <${Facts}
        facts=${[
          ["Ordered", moment(order.created_at)],
          ["Paid", order.paid_at === null ? null : moment(order.paid_at)],
          ["Channel", order.channel],
          ["Account", account_id],
          ["Buyer", buyer_subject],
          ["Payment", payment_ref],
          ["Thread", order.thread_id === "" ? null : suffixOf(order.thread_id)],
        ]}
      />
    </section>
    <section class="panel stack" aria-label="Lines of the order"><h2>Lines</h2><${Lines} lines=${lines} sums=${sums} /></section>
    ${order.paid_at !== null && may("GET /commerce/attribution/orders/{id}") ? html`<${Attribution} id=${id} brand=${brand} />` : null}
  </div>`;
}

function Attribution({ id, brand }) {
  const { data, error } = useResource("GET /commerce/attribution/orders/{id}", { id, brand });
  // An order of a quote has no row before its invoice is paid.
  if (error || data === null) return null;
  const { channel, manifest_id, buyer_subject, consent_id, utm } = data;
  return html`<section class="panel stack" aria-label="Attribution">
    <h2>Where it came from</h2>
    <${Facts} facts=${[["Channel", channel], ["Agent", manifest_id], ["Buyer", buyer_subject], ["Consent", consent_id], ...Object.entries(utm).map(([name, value]) => [`utm ${name}`, value])]} />
  </section>`;
}
