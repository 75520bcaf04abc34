import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "../core/html.js";

// A list that renders only the rows near the window. Rows have any height: each is measured when it is shown, and counts with an estimate
// before. The space of the other rows is empty, so that the scroll bar shows the whole list.

/** Pixels above and below the window that are rendered too. */
const around = 600;

/**
 * A scrolling list. `items` are the rows, `keyOf` names a row, `row` renders one. `sticky` keeps the end in view while the list grows, as
 * long as the reader is at the end. `onEnd` is called when the end comes into view.
 */
export function VirtualList({
  items,
  keyOf,
  row,
  estimate = 60,
  label,
  sticky = false,
  onEnd,
  className = "",
  foot,
  head,
  start,
}) {
  const box = useRef(null);
  const heights = useRef(new Map());
  const isAtEnd = useRef(true);
  const [view, setView] = useState({ top: 0, height: 900 });
  const [, setMeasured] = useState(0);
  const observer = useRef(null);

  const heightOf = (item) => heights.current.get(keyOf(item)) ?? estimate;
  let total = 0;
  let first = -1;
  let before = 0;
  let end = 0;
  let after = 0;
  for (let at = 0; at < items.length; at++) {
    const height = heightOf(items[at]);
    const bottom = total + height;
    if (bottom < view.top - around) before = bottom;
    else if (total <= view.top + view.height + around) {
      if (first < 0) first = at;
      end = at + 1;
    } else after += height;
    total = bottom;
  }
  const shown = first < 0 ? [] : items.slice(first, end);

  useLayoutEffect(() => {
    const element = box.current;
    const read = () => setView({ top: element.scrollTop, height: element.clientHeight });
    const onScroll = () => {
      isAtEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < 80;
      read();
    };
    element.addEventListener("scroll", onScroll, { passive: true });
    const size = new ResizeObserver(read);
    size.observe(element);
    observer.current = new ResizeObserver((entries) => {
      let changed = false;
      for (const { target } of entries) {
        const height = target.getBoundingClientRect().height;
        if (height === 0 || heights.current.get(target.dataset.key) === height) continue;
        heights.current.set(target.dataset.key, height);
        changed = true;
      }
      if (changed) setMeasured((n) => n + 1);
    });
    read();
    return () => {
      element.removeEventListener("scroll", onScroll);
      size.disconnect();
      observer.current.disconnect();
    };
  }, []);

  useLayoutEffect(() => {
    for (const element of box.current.querySelectorAll(":scope > .virtual-rows > [data-key]"))
      observer.current.observe(element);
    if (sticky && isAtEnd.current) box.current.scrollTop = box.current.scrollHeight;
    const nearEnd = total - view.top - view.height < around;
    if (onEnd && nearEnd) onEnd();
  });

  useLayoutEffect(() => {
    if (start === undefined) return;
    isAtEnd.current = true;
    if (sticky) box.current.scrollTop = box.current.scrollHeight;
  }, [start]);

  return html`<div ref=${box} class=${`virtual ${className}`} tabindex="0" role="region" aria-label=${label}>
    ${head}
    <div class="virtual-rows" role="list">
      <div style=${{ height: `${before}px` }} aria-hidden="true" role="presentation"></div>
      ${shown.map(
        (item, at) =>
          html`<div
            key=${keyOf(item)}
            data-key=${keyOf(item)}
            role="listitem"
            aria-setsize=${items.length}
            aria-posinset=${first + at + 1}
          >
            ${row(item, first + at)}
          </div>`,
      )}
      <div style=${{ height: `${after}px` }} aria-hidden="true" role="presentation"></div>
    </div>
    ${foot}
  </div>`;
}
