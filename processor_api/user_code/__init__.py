"""Reading of the arguments that users give: functions, serdes, durations and values, with the lines they stand on."""
