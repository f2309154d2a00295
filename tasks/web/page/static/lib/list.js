// A long list of which only the rows in sight are in the document.

import { html, useCallback, useEffect, useLayoutEffect, useRef, useState } from './html.js';

const SPARE = 8; // rows beyond each edge

/** items: an array. row: (item, index) => content. height: of a row, px. stick: stay at the end while it is in sight.
 * dropped: how many items left the beginning, so that a reader's place stays. label: for screen readers. */
export function VirtualList({ items, row, height = 24, stick = false, dropped = 0, label, className = '' }) {
  const box = useRef(null);
  const place = useRef({ top: 0, atEnd: stick, dropped });
  const [range, setRange] = useState([0, 60]);

  const measure = useCallback(() => {
    if (!box.current) return; // the list has gone meanwhile
    const { scrollTop, clientHeight } = box.current;
    const first = Math.max(Math.floor(scrollTop / height) - SPARE, 0);
    const last = Math.ceil((scrollTop + clientHeight) / height) + SPARE;
    setRange((now) => (now[0] === first && now[1] === last ? now : [first, last]));
  }, [height]);

  const scrolled = useCallback(() => {
    if (!box.current) return;
    const { scrollTop, scrollHeight, clientHeight } = box.current;
    const left = scrollHeight - scrollTop - clientHeight;
    // Only going up leaves the end: rows that are added move it away without anybody's doing.
    if (left < height) place.current.atEnd = true;
    else if (scrollTop < place.current.top) place.current.atEnd = false;
    place.current.top = scrollTop;
    measure();
  }, [height, measure]);

  useLayoutEffect(() => {
    const now = place.current;
    if (stick && now.atEnd) box.current.scrollTop = box.current.scrollHeight;
    else if (dropped > now.dropped) box.current.scrollTop -= (dropped - now.dropped) * height;
    now.dropped = dropped;
    now.top = box.current.scrollTop;
    measure();
  }, [items, items.length, dropped, height]);

  useEffect(() => {
    const seen = new ResizeObserver(() => {
      if (box.current && stick && place.current.atEnd) box.current.scrollTop = box.current.scrollHeight;
      measure();
    });
    seen.observe(box.current);
    return () => seen.disconnect();
  }, [measure]);

  const [first, last] = [Math.min(range[0], items.length), Math.min(range[1], items.length)];
  return html`<div class=${`virtual ${className}`} ref=${box} onScroll=${scrolled} tabindex="0" role="group" aria-label=${label}>
    <ul style=${{ height: `${items.length * height}px` }}>
      ${items.slice(first, last).map(
        (item, index) => html`<li key=${first + index + dropped} class="virtual-row" aria-posinset=${first + index + 1} aria-setsize=${items.length}
          style=${{ height: `${height}px`, transform: `translateY(${(first + index) * height}px)` }}>${row(item, first + index)}</li>`,
      )}
    </ul>
  </div>`;
}
