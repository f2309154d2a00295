// What a linter can see of the page's modules; their names and types are tsc's, which reads them too.

import js from '@eslint/js';

export default [
  { ignores: ['**/vendor/**'] },
  js.configs.recommended,
  {
    rules: {
      'no-undef': 'off',
      'no-control-regex': 'off', // text of the desk is searched for them on purpose
      'max-len': ['error', { code: 120 }],
      'no-restricted-properties': ['error', ...['innerHTML', 'outerHTML', 'insertAdjacentHTML'].map((property) => ({
        property, message: 'text of the desk is never markup',
      }))],
      'no-unused-vars': ['error', { argsIgnorePattern: '^_' }],
      eqeqeq: 'error',
      'no-throw-literal': 'off',
      'no-var': 'error',
      'object-shorthand': 'error',
      'prefer-const': ['error', { destructuring: 'all' }],
    },
  },
];
