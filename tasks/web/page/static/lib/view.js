// What views are made of, in one import.

export * from './api.js';
export * from './columns.js';
export * from './format.js';
export * from './html.js';
export * from './keys.js';
export * from './live.js';
export * from './router.js';
export * from './store.js';
export * from './ui.js';
