// Notifications of the browser while no tab of the page is seen: of what waits for a person, and of halts. A browser
// has them where the page is served over TLS or on loopback.

import { get } from './api.js';
import { count, plain } from './format.js';
import { useEffect } from './html.js';
import { session } from './session.js';
import { usePreference } from './store.js';

const EVERY_MS = 60_000; // browsers wake a hidden tab about so often

export const canNotify = () => 'Notification' in window && window.isSecureContext;

/** What is new between two answers of GET /desk, as lines. */
export function news(before, now) {
  const known = new Set(before.waiting.map(({ approval }) => approval.id));
  const fresh = now.waiting.filter(({ approval }) => !known.has(approval.id));
  const halted = new Set(before.database.halts.map((one) => one.account));
  return [
    ...(fresh.length ? [`${count(fresh.length)} ${fresh.length === 1 ? 'thing waits' : 'things wait'} for you`] : []),
    ...now.database.halts.filter((one) => !halted.has(one.account)).map((one) =>
      `${plain(one.account)} is halted: ${plain(one.why)}`),
  ];
}

/** Whether this browser notifies, and what turns that on and off. desk: the resource of GET /desk. */
export function useNotifications(desk) {
  const [wanted, want] = usePreference('notify', '');
  const on = wanted === 'yes' && canNotify() && Notification.permission === 'granted';
  useEffect(() => {
    if (!on || !desk.data) return undefined;
    let before = desk.data;
    const timer = setInterval(async () => {
      if (!document.hidden || session.value.state !== 'in') return;
      const now = await get('/desk').catch(() => null);
      if (!now) return;
      for (const line of news(before, now)) {
        const shown = new Notification('Chordesk', { body: line, tag: line });
        shown.onclick = () => window.focus();
      }
      before = now;
    }, EVERY_MS);
    return () => clearInterval(timer);
  }, [on, desk.at]);
  const turn = async () => want(!on && (await Notification.requestPermission()) === 'granted' ? 'yes' : '');
  return [on, turn];
}
