/* Whole index tables from those whose repeated rows and columns were left out (docs/clvq-format.md, "Repeats").
 *
 * Constants: INDEX (uchar or ushort), OWN (columns that a work-item writes).
 */

/* Rows of the whole table.
 *
 * NDRange: 2-D, (ceil(columns / OWN), rows), rounded up to whole groups of any size. coded: INDEX, rows of
 * coded_columns each, of which the first is coded row first_coded. row_sources, column_sources: uint, for each row and
 * column of the whole table which coded one it is or repeats. first: the first row that is written, rows of them.
 * whole: rows x columns INDEX, written.
 */
__kernel void vq_repeat(__global const INDEX *restrict coded, __global const uint *restrict row_sources,
                        __global const uint *restrict column_sources, const uint coded_columns, const uint first_coded,
                        const uint first, const uint rows, const uint columns, __global INDEX *restrict whole)
{
    const uint begin = get_global_id(0) * OWN;
    const uint row = get_global_id(1);
    if (begin >= columns || row >= rows)
        return;
    __global const INDEX *from = coded + (size_t)(row_sources[first + row] - first_coded) * coded_columns;
    __global INDEX *to = whole + (size_t)row * columns;
    const uint end = min(begin + OWN, columns);
    for (uint column = begin; column < end; ++column)
        to[column] = from[column_sources[column]];
}
