/* Columns of records handed out by the Arrow C data interface.
 *
 * Every array owns a reference to the object that owns the memory, children too: a consumer may
 * move a child away from its parent. Release may come on any thread, with or without the GIL. */
#ifndef KRAFTSPEC_ARROW_EXPORT_H
#define KRAFTSPEC_ARROW_EXPORT_H

#include <Python.h>

#include "arrow_abi.h"
#include "record_columns.h"

typedef struct {
    PyObject *owner;
    int64_t *window_sizes;
    const void *buffers[];
} array_private;

static void schema_release(struct ArrowSchema *schema) {
    for (int64_t child = 0; child < schema->n_children; child++) {
        if (schema->children[child]->release)
            schema->children[child]->release(schema->children[child]);
        free(schema->children[child]);
    }
    free(schema->children);
    schema->release = NULL;
}

static void array_release(struct ArrowArray *array) {
    array_private *private = (array_private *)array->private_data;
    for (int64_t child = 0; child < array->n_children; child++) {
        if (array->children[child]->release)
            array->children[child]->release(array->children[child]);
        free(array->children[child]);
    }
    free(array->children);
    array->release = NULL;
    if (Py_IsInitialized()) {
        PyGILState_STATE state = PyGILState_Ensure();
        Py_DECREF(private->owner);
        PyGILState_Release(state);
    }
    free(private->window_sizes);
    free(private);
}

/* `format` and `name` must live as long as the process. */
static int schema_open(
        struct ArrowSchema *schema, const char *format, const char *name, int64_t children) {
    memset(schema, 0, sizeof *schema);
    schema->format = format;
    schema->name = name;
    schema->flags = ARROW_FLAG_NULLABLE;
    schema->release = schema_release;
    if (!children)
        return 1;
    if (!(schema->children = (struct ArrowSchema **)calloc((size_t)children, sizeof(void *))))
        return 0;
    for (; schema->n_children < children; schema->n_children++)
        if (!(schema->children[schema->n_children] =
                (struct ArrowSchema *)calloc(1, sizeof *schema)))
            return 0;
    return 1;
}

static int array_open(
        struct ArrowArray *array, PyObject *owner, int64_t length, int64_t buffers,
        int64_t children) {
    memset(array, 0, sizeof *array);
    array_private *private = (array_private *)calloc(
        1, sizeof *private + (size_t)buffers * sizeof(void *));
    if (!private)
        return 0;
    private->owner = Py_NewRef(owner);
    array->length = length;
    array->n_buffers = buffers;
    array->buffers = private->buffers;
    array->release = array_release;
    array->private_data = private;
    if (!children)
        return 1;
    if (!(array->children = (struct ArrowArray **)calloc((size_t)children, sizeof(void *))))
        return 0;
    for (; array->n_children < children; array->n_children++)
        if (!(array->children[array->n_children] = (struct ArrowArray *)calloc(1, sizeof *array)))
            return 0;
    return 1;
}

static int bytes_array(
        struct ArrowArray *array, PyObject *owner, const record_columns *columns,
        const bytes_column *column, int layout, int64_t rows) {
    int64_t windows = layout == VIEW ? columns->window_count : 0;
    int64_t buffers = layout == VIEW ? windows + 3 : 3;
    if (!array_open(array, owner, rows, buffers, 0))
        return 0;
    array_private *private = (array_private *)array->private_data;
    array->null_count = column->nulls;
    private->buffers[0] = column->nulls ? column->valid : NULL;
    private->buffers[1] = column->slots;
    private->buffers[2] = column->bytes;
    if (layout != VIEW)
        return 1;
    if (!(private->window_sizes = (int64_t *)calloc((size_t)windows + 1, sizeof(int64_t))))
        return 0;
    for (int64_t index = 0; index < windows; index++) {
        private->buffers[2 + index] = columns->windows[index].base;
        private->window_sizes[index] = columns->windows[index].size;
    }
    private->buffers[2 + windows] = private->window_sizes;
    return 1;
}

static int column_array(
        struct ArrowArray *array, PyObject *owner, const record_columns *columns, int column) {
    if (column == KEY || column == VALUE)
        return bytes_array(array, owner, columns, column == KEY ? &columns->key : &columns->value,
                           columns->layout, columns->rows);
    if (column != HEADERS) {
        if (!array_open(array, owner, columns->rows, 2, 0))
            return 0;
        array->buffers[1] = columns->plain[column];
        return 1;
    }
    if (!array_open(array, owner, columns->rows, 2, 1))
        return 0;
    array->buffers[1] = columns->header_ends;
    struct ArrowArray *pairs = array->children[0];
    return array_open(pairs, owner, columns->headers, 1, 2)
        && bytes_array(pairs->children[0], owner, columns, &columns->header_key, BINARY,
                       columns->headers)
        && bytes_array(pairs->children[1], owner, columns, &columns->header_value,
                       columns->layout, columns->headers);
}

static const char *bytes_format(int layout) {
    return layout == VIEW ? "vz" : layout == BINARY ? "z" : "Z";
}

static int column_schema(
        struct ArrowSchema *schema, const record_columns *columns, int column, const char *name,
        const char *timestamp_format) {
    static const char *const formats[COLUMN_COUNT] = {
        "l", "", "c", "i", "", "", "", "b", "b", "l", "s", "i", "l", "c"
    };
    if (column == TIMESTAMP)
        return schema_open(schema, timestamp_format, name, 0);
    if (column == KEY || column == VALUE)
        return schema_open(schema, bytes_format(columns->layout), name, 0);
    if (column != HEADERS)
        return schema_open(schema, formats[column], name, 0);
    if (!schema_open(schema, "+l", name, 1))
        return 0;
    struct ArrowSchema *pairs = schema->children[0];
    return schema_open(pairs, "+s", "element", 2)
        && schema_open(pairs->children[0], "u", "key", 0)
        && schema_open(pairs->children[1], bytes_format(columns->layout), "value", 0);
}

/* A record batch of `count` columns, in the order of `order`; 0 when there is no memory for it,
 * and what was made is then still to be released. */
static int table_export(
        struct ArrowSchema *schema, struct ArrowArray *array, PyObject *owner,
        const record_columns *columns, const int *order, const char *const *names, int count,
        const char *timestamp_format) {
    if (!schema_open(schema, "+s", "", count)
            || !array_open(array, owner, columns->rows, 1, count))
        return 0;
    for (int index = 0; index < count; index++)
        if (!column_schema(schema->children[index], columns, order[index],
                           names[order[index]], timestamp_format)
                || !column_array(array->children[index], owner, columns, order[index]))
            return 0;
    return 1;
}

#endif
