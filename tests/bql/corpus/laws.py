"""The laws of MongoDB's manual by which cases are settled on which the oracles do not agree.

A case names its law by key. Where fewer than two oracles give the recorded answer, or one gives another, the key is
the case's verdict.
"""

from __future__ import annotations

from typing import Final

LAWS: Final[dict[str, str]] = {
    # filters
    "numbers": "numbers of all types compare by value, exactly; NaN equals NaN only, and -0 equals 0",
    "bracket": "$gt, $gte, $lt and $lte compare only with values of the operand's type; strings by their bytes",
    "null": "null equals null and a missing field; $gte and $lte hold for what is equal, $gt and $lt for nothing",
    "ends": "every value, and a missing field, is above MinKey and below MaxKey",
    "equality": "a value equals a field of the same value, or one element of an array; the order of fields counts",
    "elements": "a condition holds if one element of an array meets it, or the array as a whole",
    "path": "a dotted path goes through documents and the documents of an array, one level of arrays a step, or to a "
    "position; an array without documents gives no value; an element at a position is one value",
    "and": "several conditions on an array may be met by several elements",
    "in": "$in holds if a value equals one of the list or matches an expression in it; $nin is its complement",
    "all": "$all is the conjunction of its equalities, expressions or $elemMatch; of nothing it never holds",
    "not": "$not holds for all documents for which the operators do not, those without the field too",
    "size": "$size holds for an array of that many elements, not for what is in it",
    "exists": "$exists asks whether the field is there, null or not; $exists: false is its complement",
    "type": "$type holds if a value or one element of an array has one of the types; whole numbers are int or long",
    "mod": "$mod takes two finite numbers, fractions cut off, no zero divisor; values that are no numbers never match",
    "regex": "$regex is run by PCRE with UTF-8: classes are ASCII's, $ also stands before a last newline; an "
    "expression also equals itself",
    "regex value": "$eq with an expression finds the expression itself as a value",
    "elemMatch value": "$elemMatch with operators asks each element itself; an array that is an element is one value",
    "elemMatch document": "$elemMatch with fields asks elements that are documents, or arrays by their positions",
    "logic": "$and, $or and $nor join what each of their filters finds",
    # operands of filters
    "type operand": "$type takes names and whole numbers of BSON's types, one at least",
    "exists operand": "$exists takes any value for true but false, null and zero",
    "size operand": "$size takes a whole number that is not negative, of any type of numbers",
    "list operand": "$in, $nin and $all take a list of values without operators; no field starts with $",
    "not operand": "$not takes operators or an expression, one at least",
    "logic operand": "$and, $or and $nor take a list of filters, one at least, and stand beside fields",
    "elemMatch operand": "$elemMatch takes a document of known operators or of fields, not both; in projections of a "
    "field at the top",
    "regex operand": "$regex takes a pattern that RE2 can run as text, options of imsxu once; comparisons and $ne take "
    "no expression",
    "unknown": "operators that are not known are refused, and so are fields beside operators",
    # projections
    "inclusion": "an inclusion shows the fields that it names and the id; it goes through all arrays and leaves out "
    "elements that are no documents",
    "exclusion": "an exclusion shows all but the fields that it names; it goes through all arrays",
    "mixed": "only the id may be shown beside exclusions or left out beside inclusions",
    "identity": "the id is shown unless it is left out",
    "slice": "$slice cuts the array at its path, through documents of arrays but not through arrays in arrays; alone "
    "it is an exclusion",
    "slice mode": "$slice goes with both modes, and with the id alone shown it is an inclusion",
    "slice operand": "$slice takes a number, fraction cut off, or [skip, limit] with a limit from 1",
    "elemMatch shown": "$elemMatch shows the first element that matches and leaves the field out if there is none",
    "elemMatch mode": "$elemMatch alone is an inclusion, beside $slice alone an exclusion",
    "positional": "`$` shows the first element that the query matched, and a value that is no array as it is",
    "positional operand": "one `$` at the end of a path, whose array has a condition in the filter, not beside "
    "$elemMatch, and only to show",
    "flag": "true and numbers that are not zero show a field, false and zero leave it out",
    "flag operand": "a projection takes flags, $slice and $elemMatch; expressions of aggregation are refused",
    "path names": "a path has no empty part, none that starts with $, and no part of another",
    # sorts
    "order": "of an array the least element counts ascending, the greatest descending; an empty array is below null, a "
    "missing field is null, and so is one of an element that is no document; an array at a position is one value; "
    "types come in BSON's order, numbers by value",
    # updates
    "set": "$set replaces the value whatever it is",
    "way": "a path makes the documents that it lacks; a position stands for an element; other values stop it",
    "padding": "setting an element behind the end fills up with null",
    "unset": "$unset takes a field away, makes an element null, and does nothing where there is none",
    "setOnInsert": "$setOnInsert does nothing to a document that is there",
    "currentDate": "$currentDate takes true or one of its two types",
    "new fields": "new fields come in the order of their names, numbers first",
    "arithmetic": "integers give integers of 64 bits or an error, a double with one a double, a decimal with any a "
    "decimal; a missing field becomes the operand, or zero for $mul",
    "not a number": "$inc and $mul take numbers and change numbers",
    "bounds": "$min and $max compare by BSON's order over all types; equal values stay",
    "push": "$push appends to an array, makes one where there is no field, and is refused elsewhere",
    "position": "$position is a whole number; a negative one counts from the end",
    "push slice": "$slice of $push is a whole number; a negative one keeps the last elements, 0 none",
    "push sort": "$sort of $push is 1, -1 or a document of fields with such; whole elements compare by BSON's order",
    "push operand": "modifiers are $each with a list and those of $push",
    "addToSet": "$addToSet adds a value that no element equals: numbers by value, documents with the order of fields",
    "pull": "$pull removes elements that equal the value, documents that match the fields, or what meets the operators",
    "pull operand": "$pull takes a value, or conditions of known operators",
    "pop": "$pop removes the first or last element of an array, and does nothing without the field",
    "pop operand": "$pop takes 1 or -1, of any type of numbers",
    "rename": "$rename moves a value to another path, over what is there; neither path goes through an array",
    "matched": "`$` is the element that the query matched; a negation matches none",
    "every": "`$[]` is every element, and is refused where there is no array",
    "filtered": "`$[name]` is every element that the array filter of that name matches",
    "way operand": "positional parts follow an array; each array filter is used, and has one name",
    "several": "update_one changes the first document that matches, update_many all of them",
    "upsert": "an upsert inserts the equalities of the filter, within $and too, then applies the update",
    "update operand": "an operator takes a document of fields",
    "empty update": "an operator without fields changes nothing (since MongoDB 5.0)",
    "conflict": "an update changes each value once, has operators only, and never the id",
}
