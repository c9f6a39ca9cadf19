/* SPDX-License-Identifier: MIT */
/* values.js -- what values were: layer by token. */
'use strict';

const valuesView = {
  id: 'values', title: 'Values', half: true, about: 'size, extremes and outliers of each layer\'s values, token by token',
  needs: () => missing('a recording holds times, not values.', 'quern run MODEL PROMPT --tap \'l_out-*=stats=values.csv\' writes them; quern lens MODEL PROMPT says what each layer would say.'),
};
