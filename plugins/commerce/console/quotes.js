import { useState } from "preact/hooks";
import { call } from "svc/console/core/api.js";
import { ago, moment } from "svc/console/core/format.js";
import { html } from "svc/console/core/html.js";
import { usePages, useResource } from "svc/console/core/resource.js";
import { go, place, to } from "svc/console/core/router.js";
import { may } from "svc/console/core/session.js";
import { Confirm } from "svc/console/parts/dialog.js";
import { Icon } from "svc/console/parts/icon.js";
import { Choice, Facts, Page } from "svc/console/parts/page.js";
import { PagesList } from "svc/console/parts/pages-list.js";
import { Empty, Failed, Loading } from "svc/console/parts/states.js";
import { attempt } from "svc/console/parts/toast.js";
import { Lines, price, State } from "./shop-parts.js";

const tabs = [
  ["quotes", "Quotes"],
  ["invoices", "Invoices"],
];
const payRoute = "POST /b2b/invoices/{invoice_id}/pay";

/** The next move of a quote by its state: the route, the word on its button, and what it brings about. */
const moves = {
  draft: ["POST /b2b/quotes/{quote_id}/send", "Send", "Its prices hold for 14 days."],
  sent: [
    "POST /b2b/quotes/{quote_id}/accept",
    "Accept",
    "It is accepted for its buyer. Above the limit of the buyer it waits for an approval.",
  ],
  accepted: ["POST /b2b/quotes/{quote_id}/convert", "Convert", "It becomes an order and an invoice."],
};

/** The quotes and invoices of businesses; or one quote. */
export function Screen() {
  const { parts, query } = place.value;
  if (parts[0] !== undefined) return html`<${Quote} key=${parts[0]} id=${parts[0]} />`;
  const tab = query.get("tab") ?? "quotes";
  return html`<${Page}
    title="Quotes"
    about="Quotes and invoices of businesses"
    filters=${html`<${Choice} label="Part" options=${tabs} value=${tab} choose=${(next) => go(to("quotes", [], { tab: next }), { replace: true })} />`}
  >
    ${tab === "invoices" ? html`<${Invoices} />` : html`<${Quotes} />`}
  <//>`;
}

function Quotes() {
  const pages = usePages("GET /b2b/quotes", {}, { itemsOf: ({ quotes }) => quotes });
  return html`<${PagesList}
    pages=${pages}
    keyOf=${({ id }) => id}
    row=${(quote) => html`<${QuoteRow} quote=${quote} />`}
    label="Quotes"
    estimate=${64}
    empty=${html`<${Empty} icon="tag" title="No quote yet">An agent makes one with <code>create_quote</code>, or a program with <code>POST /b2b/quotes</code>.<//>`}
  />`;
}

function QuoteRow({ quote }) {
  const { id, account_id, buyer_id, status, total_cents, currency, created_at } = quote;
  return html`<div class="row">
    <a class="row-main" href=${to("quotes", [id])}><b dir="auto">${account_id}</b><small><code>${id}</code> for ${buyer_id}</small></a>
    <${State} of=${status} />
    <span class="row-time">${price(total_cents, currency)} · ${ago(created_at)}</span>
  </div>`;
}

function Invoices() {
  const pages = usePages("GET /b2b/invoices", {}, { itemsOf: ({ invoices }) => invoices });
  return html`<${PagesList}
    pages=${pages}
    keyOf=${({ id }) => id}
    row=${(invoice) => html`<${InvoiceRow} invoice=${invoice} onPaid=${pages.reload} />`}
    label="Invoices"
    estimate=${64}
    empty=${html`<${Empty} icon="tag" title="No invoice yet">An accepted quote becomes an order and an invoice.<//>`}
  />`;
}

function InvoiceRow({ invoice, onPaid }) {
  const [isPaying, setPaying] = useState(false);
  const { id, account_id, quote_id, status, amount_cents, currency, provider, due_at, paid_at } = invoice;
  const pay = async () => {
    await attempt(() => call(payRoute, { invoice_id: id }), "Paid");
    onPaid();
  };
  return html`<div class="row">
    <a class="row-main" href=${to("quotes", [quote_id])}><b dir="auto">${account_id}</b><small><code>${id}</code> ${provider}</small></a>
    <${State} of=${status} />
    <span class="row-time">${price(amount_cents, currency)} · ${paid_at === null ? `due ${ago(due_at)}` : `paid ${ago(paid_at)}`}</span>
    ${status === "open" && may(payRoute) ? html`<button type="button" class="small" onClick=${() => setPaying(true)}>Pay</button>` : null}
    ${isPaying ? html`<${Confirm} title="Pay this invoice?" text=${`${price(amount_cents, currency)} of ${account_id}. The provider ${provider} is asked to collect it, or its payment is recorded.`} action="Pay it" close=${() => setPaying(false)} confirm=${pay} />` : null}
  </div>`;
}

function Quote({ id }) {
  const { data: quote, error, reload } = useResource("GET /b2b/quotes/{quote_id}", { quote_id: id });
  const [isMoving, setMoving] = useState(false);
  const [route, word, effect] = moves[quote?.status] ?? [];
  const move = async () => {
    await attempt(() => call(route, { quote_id: id }), "Done");
    reload();
  };
  const tools = html`<a class="button ghost icon-button" href=${to("quotes")} aria-label="All quotes"><${Icon} name="left" size=${16} /></a>
    ${route && may(route) ? html`<button type="button" class="primary" onClick=${() => setMoving(true)}>${word}</button>` : null}
    ${quote?.status === "pending_approval" ? html`<a class="button" href=${to("inbox")}>Decide in the inbox</a>` : null}`;
  return html`<${Page} title="Quote" tools=${tools} about=${id}>
    ${
      error
        ? html`<${Failed} error=${error} retry=${reload} />`
        : quote === null
          ? html`<${Loading} label="Reading the quote" />`
          : html`<${Details} quote=${quote} />`
    }
    ${isMoving ? html`<${Confirm} title=${`${word} this quote?`} text=${effect} action=${`${word} it`} close=${() => setMoving(false)} confirm=${move} />` : null}
  <//>`;
}

function Details({ quote }) {
  const { status, account_id, buyer_id, valid_until, notes, items, currency, order_id, invoice_id } = quote;
  const amount = (cents) => price(cents, currency);
  const lines = items.map(({ product_id, title, qty, unit_price_cents, price_source, line_total_cents }) => [
    ...[product_id, title, qty, `${amount(unit_price_cents)} (${price_source.replaceAll("_", " ")})`],
    amount(line_total_cents),
  ]);
  const sums = [
    ["Subtotal", amount(quote.subtotal_cents)],
    ["Discount", amount(quote.discount_cents)],
    ["Tax", amount(quote.tax_cents)],
    ["Total", amount(quote.total_cents)],
  ];
  return html`<div class="scroll stack" tabindex="0" role="region" aria-label="Quote">
    <section class="panel stack" aria-label="Facts">
      <div class="buttons"><${State} of=${status} /></div>
      <${Facts}
        facts=${[
          ["Account", account_id],
          ["Buyer", buyer_id],
          ["Made", moment(quote.created_at)],
          ["Prices hold until", valid_until === null ? null : moment(valid_until)],
          ["Notes", notes],
          ["Order", order_id === null ? null : html`<a href=${to("orders", [order_id])}>${order_id}</a>`],
          ["Invoice", invoice_id],
        ]}
      />
    </section>
    <section class="panel stack" aria-label="Lines of the quote"><h2>Lines</h2><${Lines} lines=${lines} sums=${sums} /></section>
  </div>`;
}
