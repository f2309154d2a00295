// The views: one line each. path: with :parameters; name: in the menu, if `menu`; key: after g, goes there.
// A view's module exports `default`, a component that gets {params, query}; `title(params)` if its name is not enough.
// css: a style sheet of its own, beside its module.

export const VIEWS = [
  { path: '/', name: 'Desk', menu: true, key: 'd', load: () => import('./views/desk.js') },
  { path: '/runs', name: 'Runs', menu: true, key: 'r', load: () => import('./views/runs.js') },
];
