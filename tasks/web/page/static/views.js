// The views: one line each. path: with :parameters; name: in the menu, if `menu`; key: after g, goes there.
// A view's module exports `default`, a component that gets {params, query}; `title(params)` if its name is not enough.
// css: a style sheet of its own, beside its module.

export const VIEWS = [
  { path: '/', name: 'Desk', menu: true, key: 'd', load: () => import('./views/desk.js') },
  { path: '/runs', name: 'Runs', menu: true, key: 'r', load: () => import('./views/runs.js') },
  { path: '/runs/:run', name: 'Run', css: 'run.css', load: () => import('./views/run.js') },
  { path: '/runs/:run/compare/:other', name: 'Run', css: 'run.css', load: () => import('./views/run.js') },
  { path: '/symbols', name: 'Symbols', menu: true, key: 'y', css: 'symbol.css', load: () => import('./views/symbols.js') },
  { path: '/symbols/:symbol', name: 'Symbol', css: 'symbol.css', load: () => import('./views/symbol.js') },
  { path: '/reports/:report', name: 'Report', css: 'report.css', load: () => import('./views/report.js') },
  { path: '/verdicts/:verdict', name: 'Verdict', css: 'report.css', load: () => import('./views/verdict.js') },
  { path: '/orders', name: 'Orders', menu: true, key: 'o', css: 'orders.css', load: () => import('./views/orders.js') },
  { path: '/orders/:order', name: 'Order', css: 'orders.css', load: () => import('./views/order.js') },
  { path: '/approvals', name: 'Approvals', key: 'p', css: 'orders.css', load: () => import('./views/approvals.js') },
  { path: '/account', name: 'Account', menu: true, key: 'a', css: 'orders.css', load: () => import('./views/account.js') },
  { path: '/accounts/:account', name: 'Account', css: 'orders.css', load: () => import('./views/account.js') },
  { path: '/threads', name: 'Threads', menu: true, key: 't', css: 'orders.css', load: () => import('./views/threads.js') },
  { path: '/threads/:thread', name: 'Thread', css: 'orders.css', load: () => import('./views/thread.js') },
  { path: '/turns/:turn', name: 'Turn', css: 'orders.css', load: () => import('./views/turn.js') },
  { path: '/scores', name: 'Record', menu: true, key: 'b', css: 'orders.css', load: () => import('./views/scores.js') },
  { path: '/scores/:kind/:name', name: 'Score', css: 'orders.css', load: () => import('./views/score.js') },
  { path: '/board/:run', name: 'Board', css: 'orders.css', load: () => import('./views/board.js') },
  { path: '/questions/:question', name: 'Question', css: 'orders.css', load: () => import('./views/question.js') },
  { path: '/backtests/:run', name: 'Backtest', css: 'orders.css', load: () => import('./views/backtest.js') },
  { path: '/fleet', name: 'Fleet', menu: true, key: 'f', css: 'orders.css', load: () => import('./views/fleet.js') },
  { path: '/settings', name: 'Settings', menu: true, key: 's', css: 'orders.css', load: () => import('./views/settings.js') },
];
