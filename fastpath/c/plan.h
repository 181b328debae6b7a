/* A compiled plan: what a layout literal (plan.py) becomes for the engine.
 *
 *   plan_struct ── fields ──> plan_field  plan_field  plan_field ...   in wire order
 *        │    └─── tagged ──> plan_field ...                           in tag order
 *        │    └─── absent ──> plan_field ...   not in this version, and must hold the default
 *        └─────── filled ──> plan_fresh ...   set by a decode that did not find them
 *
 * A field knows the offset of its slot in the msgspec struct. An array of primitives has an `item`,
 * an array of structs and a struct have a `child`. Nothing here owns a reference: the Programs
 * object that compiled the plan does. Kafka source of the wire types: MessageGenerator, KIP-482.
 */
#ifndef KRAFTSPEC_PLAN_H
#define KRAFTSPEC_PLAN_H

#include <Python.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>

enum {
    W_BOOL, W_INT8, W_INT16, W_UINT16, W_INT32, W_UINT32, W_INT64, W_FLOAT64, W_UUID,
    W_STRING, W_BYTES, W_RECORDS, W_ARRAY, W_STRUCT
};
/* What a default is: see WireDefault in plan.py. */
enum { D_NULL, D_BOOL, D_INT, D_FLOAT, D_STRING, D_BYTES, D_EMPTY, D_STRUCT };
/* How a field that a decode did not find is set. */
enum { F_SHARED, F_LIST, F_STRUCT };

static const uint8_t FIXED_BYTES[] = {1, 1, 2, 2, 4, 4, 8, 8, 16}; /* W_BOOL to W_UUID */

#define STRING_BYTES_MAX 0x7FFF
#define LENGTH_MAX 0x7FFFFFFF
#define TAG_MAX 0x7FFFFFFF

typedef struct plan_struct plan_struct;
typedef struct plan_fresh plan_fresh;
typedef struct plan_defaults plan_defaults;

/* The last short text that a string field held: the next message often has the same. */
typedef struct kept_text {
    PyObject *text; /* owned, unlike all else here */
    struct kept_text *next;
} kept_text;

typedef struct plan_field {
    uint8_t wire;
    uint8_t compact;
    uint8_t nullable;
    uint8_t in_tag;
    uint8_t default_kind;
    uint32_t tag;
    Py_ssize_t slot;
    const struct plan_field *item;
    const plan_struct *child;
    kept_text *kept;               /* of a string */
    PyObject *given;               /* the default, as the literal has it */
    int64_t number;                /* the default, when it is an integer */
    const plan_defaults *defaults; /* of the struct that a D_STRUCT holds */
} plan_field;

/* The default of one slot of a struct: a value that may be shared, a new list or a new struct. */
struct plan_fresh {
    uint8_t kind;
    Py_ssize_t slot;
    PyObject *value;
    const plan_defaults *defaults;
};

/* Every slot of a class. */
struct plan_defaults {
    PyTypeObject *type;
    Py_ssize_t count;
    plan_fresh *slots;
};

struct plan_struct {
    PyTypeObject *type;
    int flexible;
    int height;           /* how many levels of structs there are in it */
    Py_ssize_t bytes_min; /* on the wire */
    Py_ssize_t unknown_slot; /* of unknown_tagged_fields; -1 where the class has none */
    Py_ssize_t field_count, tagged_count, absent_count, fill_count, reserved_count;
    plan_field *fields, *tagged, *absent;
    plan_fresh *fill;   /* slots that are no fields of this version */
    plan_fresh *unset;  /* for each of `tagged`, what it is when the wire lacks it */
    uint32_t *reserved; /* tag numbers that the schema gives out, in any version */
    uint32_t *later;    /* those of them that this version lacks: the last `later_count` */
    Py_ssize_t later_count;
};

/* What the engine needs of the Python side; references held for the life of the process. */
static struct {
    PyTypeObject *uuid;      /* types.Uuid: bytes of length 16 */
    PyObject *zero_uuid;     /* types.ZERO_UUID */
    PyObject *standard_uuid; /* uuid.UUID */
    PyObject *is_default;    /* plan.is_default */
    PyTypeObject *codec;     /* message.Codec, and the offset of its slot `programs` */
    Py_ssize_t programs_slot;
} engine;

#define SLOT(object, offset) (*(PyObject **)((char *)(object) + (offset)))

/* The offset of an attribute that is a plain object slot of `type` or of a base of it; -1 with
 * TypeError for any other attribute. Only a type of exactly this class may be read through it. */
static Py_ssize_t slot_of(PyTypeObject *type, PyObject *name) {
    PyObject *found = _PyType_Lookup(type, name);
    if (found != NULL && Py_IS_TYPE(found, &PyMemberDescr_Type) &&
        PyType_IsSubtype(type, PyDescr_TYPE(found))) {
        PyMemberDef *member = ((PyMemberDescrObject *)found)->d_member;
        Py_ssize_t offset = member->offset;
        if (member->type == T_OBJECT_EX && offset >= (Py_ssize_t)sizeof(PyObject) &&
            offset % (Py_ssize_t)sizeof(PyObject *) == 0 &&
            offset + (Py_ssize_t)sizeof(PyObject *) <= type->tp_basicsize)
            return offset;
    }
    PyErr_Format(PyExc_TypeError, "%s.%U is no slot", type->tp_name, name);
    return -1;
}

/* Whether the engine may make objects of this type by itself: it is a msgspec struct that adds
 * nothing to making one, has no dict, and is not tracked by the collector. */
static int is_plain_struct(PyTypeObject *type, PyTypeObject *base) {
    return PyType_IsSubtype(type, base) && Py_IS_TYPE(type, Py_TYPE(base)) &&
           type->tp_alloc == PyType_GenericAlloc && type->tp_free == PyObject_Free &&
           type->tp_init == base->tp_init && type->tp_new == base->tp_new &&
           type->tp_dealloc == base->tp_dealloc && type->tp_itemsize == 0 &&
           type->tp_dictoffset == 0 && !PyType_IS_GC(type) &&
           type->tp_basicsize % (Py_ssize_t)sizeof(PyObject *) == 0;
}

/* Whether a contiguous view, requested with its format, is one of plain bytes. */
static inline int is_bytes_view(const Py_buffer *view) {
    return view->ndim == 1 && view->itemsize == 1 &&
           (view->format == NULL || strcmp(view->format, "B") == 0);
}

/* A new struct with every slot empty: PyType_GenericAlloc for such a type, without its detours. */
static inline PyObject *new_struct(PyTypeObject *type) {
    PyObject *made = PyObject_Malloc((size_t)type->tp_basicsize);
    if (made == NULL)
        return PyErr_NoMemory();
    PyObject **slot = (PyObject **)(made + 1);
    PyObject **end = (PyObject **)((char *)made + type->tp_basicsize);
    while (slot < end)
        *slot++ = NULL;
    Py_SET_TYPE(made, type);
    Py_INCREF(type);
    _Py_NewReference(made);
    return made;
}

static PyObject *fresh_struct(const plan_defaults *defaults);

/* A new reference to the default of the slot. */
static inline PyObject *fresh_value(const plan_fresh *fresh) {
    if (fresh->kind == F_SHARED) {
        Py_INCREF(fresh->value);
        return fresh->value;
    }
    return fresh->kind == F_LIST ? PyList_New(0) : fresh_struct(fresh->defaults);
}

static PyObject *fresh_struct(const plan_defaults *defaults) {
    PyObject *made = new_struct(defaults->type);
    if (made == NULL)
        return NULL;
    for (Py_ssize_t at = 0; at < defaults->count; at++) {
        const plan_fresh *fresh = &defaults->slots[at];
        if ((SLOT(made, fresh->slot) = fresh_value(fresh)) == NULL) {
            Py_DECREF(made);
            return NULL;
        }
    }
    return made;
}

#endif
