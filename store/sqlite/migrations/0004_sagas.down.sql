DROP TABLE saga_marks;
DROP TABLE sagas;
